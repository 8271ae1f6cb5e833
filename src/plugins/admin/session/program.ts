import { hash } from "node:crypto";
import * as v from "valibot";
import { ServiceError } from "../../../core/base/errors.ts";
import { SIGN_IN_PREFIX } from "../../../core/http/gate.ts";
import type { HttpEvent } from "../../../core/http/route.ts";
import type { AdminParts } from "../parts.ts";
import type { NewSession } from "../sessions.ts";
import { leadTo } from "./lead-to.ts";

/** Seconds in which the program must fetch its sign-in once the person has agreed. */
const LONGEST = 60;

/** A program on the person's machine that wants to act as that person. */
export const ProgramSchema = v.object({
  /** Where it listens on the person's machine. */
  port: v.pipe(v.string(), v.regex(/^\d{4,5}$/, "must be a port")),
  /** SHA-256 of the secret with which it fetches the sign-in, in base64url. */
  challenge: v.pipe(v.string(), v.regex(/^[\w-]{43}$/, "must be a hash in base64url")),
  state: v.pipe(v.string(), v.regex(/^[\w-]{16,100}$/, "must be 16 to 100 letters and digits")),
  program: v.pipe(v.string(), v.regex(/^[^\p{C}]{1,80}$/u, "must be a name of at most 80 characters")),
});
export type Program = v.InferOutput<typeof ProgramSchema>;

/** What is in a code, sealed. */
interface Coded {
  readonly value: string;
  readonly challenge: string;
  /** Milliseconds since the epoch. */
  readonly expires: number;
  /** When the session ends, in milliseconds. */
  readonly until: number;
}

/** Leads the browser to the program, with a code that only the program can use. */
export function leadToProgram(
  parts: AdminParts,
  event: HttpEvent,
  { opened, program }: { readonly opened: NewSession; readonly program: Program },
): Promise<Response> {
  const coded: Coded = {
    ...{ value: opened.value, challenge: program.challenge, until: opened.row.until },
    expires: parts.clock().getTime() + LONGEST * 1000,
  };
  const code = parts.programSeal.close(JSON.stringify(coded));
  const query = new URLSearchParams({ code, state: program.state });
  return leadTo(event, { to: `http://127.0.0.1:${program.port}/?${query}`, said: "Signed in." });
}

/** The session that a code is about, for the program that started the sign-in. */
export function valueIn(
  { programSeal, clock }: AdminParts,
  { code, verifier }: { readonly code: string; readonly verifier: string },
): Pick<Coded, "value" | "until"> {
  const text = programSeal.open(code);
  const coded = text === undefined ? undefined : (JSON.parse(text) as Coded);
  const isRight =
    coded !== undefined &&
    coded.expires > clock().getTime() &&
    hash("sha256", verifier, "base64url") === coded.challenge;
  if (!isRight) throw signInEnded("This code is not valid, or no longer");
  return coded;
}

/** What the program sends as a key, and until when. */
export function toSignIn({ value, until }: Pick<Coded, "value" | "until">) {
  return { token: SIGN_IN_PREFIX + value, expires_at: new Date(until).toISOString() };
}

export function signInEnded(message: string): ServiceError {
  return new ServiceError("unauthorized", message, { detail: "Sign in again: svc login." });
}
