import * as v from "valibot";
import { EventKeySchema } from "../../models/received-event.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";
import { JobPathSchema } from "./schemas.ts";

const BodySchema = v.object({ content: v.string(), id: v.optional(EventKeySchema) });
const SentSchema = v.object({ job_id: v.string(), message_id: v.string() });

/** Messages of threads. */
export function messageRoute({ prefix, seen }: MachineParts): RouteDefinition {
  return defineRoute({
    method: "POST",
    path: `${prefix}/jobs/{id}/messages`,
    auth: "key",
    token: { scope: "message", job: "id" },
    needs: "start",
    narrows: true,
    summary: "Send a message to a thread",
    description:
      "For jobs of agents that were defined with `defineChat`. The message is stored, and becomes the next turn of the thread: a case, which is closed with `{message, answer}`. With an `id`, repeating the request adds nothing. The answer streams from `GET /jobs/{id}/stream`.",
    tag: "Chat",
    params: JobPathSchema,
    body: BodySchema,
    status: 202,
    responses: { 202: { description: "The message is stored", schema: SentSchema } },
    handler: async ({ params, body, caller }) => {
      const { messageId } = await seen(caller).threads.say(params.id, body.content, body.id);
      return { job_id: params.id, message_id: messageId! };
    },
  });
}
