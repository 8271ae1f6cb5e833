import { randomUUID } from "node:crypto";
import * as v from "valibot";
import type { GivenFile } from "../../agents/read-values.ts";
import { ServiceError } from "../../base/errors.ts";
import type { SentTurn } from "../../conversations/thread-message.ts";
import { keyOf } from "../../models/question-key.ts";
import { EventKeySchema } from "../../models/received-event.ts";
import { TimestampSchema } from "../../models/scalars.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";
import { JobPathSchema } from "./schemas.ts";

/** Whether it is a file is judged when it is taken, as of a field for files. */
const GivenFileSchema = v.looseObject({
  upload: v.optional(v.string()),
  name: v.optional(v.string()),
  type: v.optional(v.string()),
  data: v.optional(v.string()),
});
const BodySchema = v.object({
  content: v.string(),
  files: v.optional(
    v.pipe(
      v.array(GivenFileSchema),
      v.description(
        'Its files: uploads, {"upload": "<id>"}, or small ones, {"name", "type", "data": "<base64>"}',
      ),
    ),
    [],
  ),
  id: v.optional(EventKeySchema),
  question: v.optional(
    v.pipe(
      v.object({ case_id: v.string(), id: v.string(), asked_at: TimestampSchema }),
      v.description("The question that its sender was shown: the message answers it, in a person's words"),
    ),
  ),
});
const SentSchema = v.object({
  job_id: v.string(),
  message_id: v.string(),
  answer: v.optional(
    v.pipe(
      v.object({ accepted: v.boolean(), note: v.nullable(v.string()) }),
      v.description("What came of an answer; one that is not accepted has changed nothing"),
    ),
  ),
});

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
      "For jobs of agents that were defined with `defineChat`. The message is stored, and becomes the next turn of the thread: a case, which is closed with `{message, answer}`. With an `id`, repeating the request adds nothing. `files` are those of the message; an answer has none. With `question`, the message is the answer to that question; a token needs the scope `answer`, too. The answer streams from `GET /jobs/{id}/stream`.",
    tag: "Chat",
    params: JobPathSchema,
    body: BodySchema,
    status: 202,
    responses: { 202: { description: "The message is stored", schema: SentSchema } },
    handler: async ({ params, body: { content, files: given, id, question }, caller }) => {
      const files = given as readonly GivenFile[];
      const { threads } = seen(caller);
      if (!question) {
        const { messageId } = await threads.say(params.id, content, id, { files });
        return { job_id: params.id, message_id: messageId! };
      }
      if (caller.kind === "token" && !caller.scopes?.includes("answer")) {
        throw new ServiceError("forbidden", "The token does not allow answers", {
          detail: "It needs the scope answer, too.",
        });
      }
      const key = id ?? randomUUID();
      const asked = keyOf({ id: question.case_id, question });
      const sent = await threads.reply(params.id, {
        content,
        files,
        key,
        seen: asked,
        by: caller,
        via: "api",
      });
      return { job_id: params.id, message_id: key, ...outcomeOf(sent) };
    },
  });
}

function outcomeOf({ answered }: SentTurn) {
  if (!answered) return {};
  const { again, before, agreed = null } = answered;
  if (again === undefined && before === undefined) return { answer: { accepted: true, note: agreed } };
  const note = before ?? (again || "The thread asks something else by now.");
  return { answer: { accepted: false, note } };
}
