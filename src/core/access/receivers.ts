import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import * as v from "valibot";
import { checkFirst, OptionsError } from "../base/check-options.ts";
import { EventNameSchema } from "../models/received-event.ts";

export const SIGNERS = ["stripe", "github", "standard-webhooks"] as const;
/** Who signs events, and how: Stripe, GitHub, or any sender that follows the Standard Webhooks specification. */
export type Signer = (typeof SIGNERS)[number];

/** Takes signed events from outside, without a key, for jobs that wait for them. */
export interface ReceiverOptions {
  /** Name of its events, and the last part of its path: `/receivers/{name}`. */
  readonly name: string;
  readonly verify: Signer;
  /** The secret that the sender signs with; several while it changes. */
  readonly secret: string | readonly string[];
}

/** A receiver, checked. */
export interface Receiver {
  readonly name: string;
  readonly verify: Signer;
  /** Keys of HMAC-SHA256. */
  readonly keys: readonly Buffer[];
  /** As they were given: for the masks of everything that leaves the service. */
  readonly secrets: readonly string[];
}

/** A request as it came: the signature is of these bytes. */
export interface SignedRequest {
  readonly headers: Headers;
  readonly bytes: Buffer;
  readonly now: Date;
}

/** What a signature vouches for; without an id, the bytes name the event. */
export interface Verified {
  /** The sender's id of the event, if the signature covers it. */
  readonly id: string | undefined;
  /** Its type, where a header has it. */
  readonly type: string | undefined;
}

/** Seconds that the clocks of sender and service may differ, and that a request may be under way. */
const TOLERANCE = 300;

const ReceiverSchema = v.object({
  name: EventNameSchema,
  verify: v.picklist(SIGNERS, `must be one of ${SIGNERS.join(", ")}`),
  secret: v.union([v.string(), v.pipe(v.array(v.string()), v.minLength(1, "must have a secret"))]),
});

/** Checks the receivers; throws `OptionsError` that names one, and never its secret. */
export function resolveReceivers(given: readonly ReceiverOptions[] = []): readonly Receiver[] {
  const receivers = given.map((one, at): Receiver => {
    const what = `Option receivers[${at}]`;
    const refuse = (problem: string) => new OptionsError(`${what}: ${problem}`);
    const { name, verify, secret } = checkFirst(ReceiverSchema, one, refuse);
    const secrets = typeof secret === "string" ? [secret] : secret;
    return { name, verify, secrets, keys: secrets.map((text) => keyOf(verify, text, `${what} ("${name}")`)) };
  });
  const names = receivers.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new OptionsError(`Option receivers: two of them have the name "${twice}"`);
  return receivers;
}

/** Shorter secrets can be guessed from one signed request. */
const SHORTEST = 16;

function keyOf(verify: Signer, secret: string, what: string): Buffer {
  const isEncoded = verify === "standard-webhooks";
  const key = isEncoded ? Buffer.from(secret.replace(/^whsec_/, ""), "base64") : Buffer.from(secret);
  if (key.length >= SHORTEST) return key;
  throw new OptionsError(
    `${what}: its secret must have ${SHORTEST} bytes or more${isEncoded ? ", in base64" : ""}`,
  );
}

/** What the signature of a request vouches for; `undefined` where it has none that is right and in time. */
export function verifyRequest(receiver: Receiver, request: SignedRequest): Verified | undefined {
  return VERIFIERS[receiver.verify](receiver, request);
}

const VERIFIERS: Readonly<
  Record<Signer, (receiver: Receiver, request: SignedRequest) => Verified | undefined>
> = {
  stripe({ keys }, { headers, bytes, now }) {
    const parts = (headers.get("stripe-signature") ?? "").split(",").map((part) => part.trim().split("="));
    const time = parts.find(([name]) => name === "t")?.[1] ?? "";
    const given = parts.flatMap(([name, value]) => (name === "v1" && value ? [value] : []));
    if (!isInTime(time, now) || !isSigned(keys, [time, ".", bytes], { given, encoding: "hex" }))
      return undefined;
    return { id: undefined, type: undefined };
  },
  github({ keys }, { headers, bytes }) {
    const [, given] = /^sha256=([0-9a-f]{64})$/.exec(headers.get("x-hub-signature-256") ?? "") ?? [];
    if (given === undefined || !isSigned(keys, [bytes], { given: [given], encoding: "hex" }))
      return undefined;
    // The id of the delivery is not signed: with another one, the same bytes would be another event.
    return { id: undefined, type: headers.get("x-github-event") ?? undefined };
  },
  "standard-webhooks"({ keys }, { headers, bytes, now }) {
    const [id, time] = [headers.get("webhook-id") ?? "", headers.get("webhook-timestamp") ?? ""];
    const given = (headers.get("webhook-signature") ?? "")
      .split(" ")
      .flatMap((one) => (one.startsWith("v1,") ? [one.slice(3)] : []));
    if (id === "" || !isInTime(time, now)) return undefined;
    if (!isSigned(keys, [id, ".", time, ".", bytes], { given, encoding: "base64" })) return undefined;
    return { id, type: undefined };
  },
};

function isInTime(time: string, now: Date): boolean {
  return /^\d{1,12}$/.test(time) && Math.abs(now.getTime() / 1000 - Number(time)) <= TOLERANCE;
}

/** Signatures of a request that are compared; more are no sender's. */
const MOST_SIGNATURES = 10;

/** Compares in the same time wherever they differ, and all of them, whichever is right. */
function isSigned(
  keys: readonly Buffer[],
  content: readonly (string | Buffer)[],
  { given, encoding }: { readonly given: readonly string[]; readonly encoding: "hex" | "base64" },
): boolean {
  let isRight = false;
  for (const key of keys) {
    const hmac = createHmac("sha256", key);
    for (const part of content) hmac.update(part);
    const right = hmac.digest();
    for (const one of given.slice(0, MOST_SIGNATURES)) {
      const sent = Buffer.from(one, encoding);
      if (sent.length === right.length && timingSafeEqual(sent, right)) isRight = true;
    }
  }
  return isRight;
}

/** Names an event by what was signed: the same bytes are the same event. */
export function idOfBytes(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("base64url");
}
