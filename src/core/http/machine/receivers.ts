import * as v from "valibot";
import { idOfBytes, type Receiver, verifyRequest } from "../../access/receivers.ts";
import { isServiceError, ServiceError } from "../../base/errors.ts";
import { EventKeySchema } from "../../models/received-event.ts";
import { JsonMapSchema } from "../../models/scalars.ts";
import { readJson } from "../json-body.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";

/** Bytes of an event: senders have no key, and what they send is held in memory until it is verified. */
const LONGEST = 1024 * 1024;

/** Where other services send events that they sign, for jobs that wait for them with `job.waitFor`. */
export function receiverRoutes({ prefix, receivers, runner, clock }: MachineParts): RouteDefinition[] {
  if (receivers.length === 0) return [];
  const byName = new Map(receivers.map((one) => [one.name, one]));
  return [
    defineRoute({
      method: "POST",
      path: `${prefix}/receivers/{name}`,
      auth: "none",
      needs: "nothing",
      summary: "Receive a signed event",
      description:
        "For senders without a key, which sign what they send: the option `receivers` names them. Jobs that wait for an event of this name get `type` and `payload`. The same event again changes nothing. A signature that is wrong, or older than five minutes, is 401.",
      tag: "Events",
      params: v.object({ name: v.string() }),
      query: v.looseObject({}),
      rawBody: true,
      bodyLimit: LONGEST,
      status: 202,
      responses: {
        202: { description: "The event is stored", schema: v.object({ id: v.string(), name: v.string() }) },
      },
      handler: async ({ params, event }) => {
        const receiver = byName.get(params.name);
        if (!receiver) throw new ServiceError("not_found", `There is no receiver "${params.name}"`);
        const bytes = Buffer.from(await event.req.arrayBuffer());
        const { id, data } = read(receiver, { headers: event.req.headers, bytes, now: clock() });
        try {
          await runner.receive(receiver.name, { id, data });
        } catch (error) {
          // A sender that repeats an event may have changed what is not part of it, such as a count of attempts.
          if (!isServiceError(error) || error.status !== 409) throw error;
        }
        return { id, name: receiver.name };
      },
    }),
  ];
}

function read(
  receiver: Receiver,
  request: Parameters<typeof verifyRequest>[1],
): { readonly id: string; readonly data: Record<string, unknown> } {
  // Read only once it is known whose it is.
  const verified = verifyRequest(receiver, request);
  if (!verified) {
    throw new ServiceError("unauthorized", `The signature is not one of receiver "${receiver.name}"`, {
      detail: "Check the secret, that the body is sent as it was signed, and the sender's clock.",
    });
  }
  const { headers, bytes } = request;
  const payload = readJson(bytes, headers.get("content-type"), true);
  if (Array.isArray(payload) || !v.is(JsonMapSchema, payload))
    throw new ServiceError("invalid_request", "The event is not a JSON object", { status: 400 });
  const given = verified.id ?? (receiver.verify === "stripe" ? payload.id : undefined);
  const id = v.is(EventKeySchema, given) ? given : idOfBytes(bytes);
  const type = verified.type ?? payload.type;
  return { id, data: { ...(typeof type === "string" && { type }), payload } };
}
