import { hash } from "node:crypto";
import * as v from "valibot";
import type { AgentDefinition } from "../../core/agents/define-agent.ts";
import { fieldsOf } from "../../core/agents/fields.ts";
import { readJobFields } from "../../core/agents/read-values.ts";
import { ServiceError } from "../../core/base/errors.ts";
import { inOrder } from "../../core/base/in-order.ts";
import { threadIdOf } from "../../core/conversations/thread-id.ts";
import { baseUrl } from "../../core/http/base-url.ts";
import { findFirst, startOf, startOfNew } from "../../core/http/first-response.ts";
import { tellStory } from "../../core/http/job-story.ts";
import { defineRoute } from "../../core/http/route.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import { JsonMapSchema } from "../../core/models/scalars.ts";
import { answerByKey } from "../../core/runs/questions/open-questions.ts";
import { definePlugin, type Plugin } from "../../core/service/plugin.ts";
import { protocolPath } from "../../core/service/protocol-parts.ts";
import { CLOCK, OPTIONS, ROUTER, SEEN, SERVICE_STATE, STORE, STREAMS } from "../../core/service/tokens.ts";
import { readContent, takeMessage, unsupported } from "./take-message.ts";
import { toChatEvents } from "./to-chat-events.ts";
import { toEvents } from "./to-events.ts";

export interface AgUiOptions {
  /** Path of the endpoints, after the service's `apiPrefix`; each agent's is below it, by its slug. @default "/ag-ui" */
  readonly path?: string;
}

const OptionsSchema = v.strictObject({
  path: protocolPath("/ag-ui"),
});

const InputSchema = v.looseObject({
  threadId: v.pipe(v.string(), v.nonEmpty()),
  runId: v.pipe(v.string(), v.nonEmpty()),
  messages: v.optional(v.array(v.looseObject({ role: v.string(), content: v.optional(v.unknown()) })), []),
  forwardedProps: v.optional(v.unknown()),
  resume: v.optional(
    v.array(
      v.looseObject({
        interruptId: v.string(),
        status: v.picklist(["resolved", "cancelled"]),
        payload: v.optional(v.unknown()),
      }),
    ),
    [],
  ),
});
type Input = v.InferOutput<typeof InputSchema>;

/** What jobs that runs have started say in `started_by`. */
const STARTED_BY = "ag-ui";

/**
 * Serves the agents to user interfaces that speak AG-UI 1.0: a thread is a job, and a run streams what happens until the
 * job has ended or asks something.
 *
 * @example
 * createServer({ agents: [auditor], plugins: [agUi()] });
 */
export const agUi = definePlugin({
  name: "ag-ui",
  options: OptionsSchema,
  setup({ options, get }) {
    const [seen, streams] = [get(SEEN), get(STREAMS)];
    const prefix = get(OPTIONS).apiPrefix;
    get(ROUTER).add(
      defineRoute({
        method: "POST",
        path: `${prefix}${options.path}/{slug}`,
        auth: "key",
        needs: "start",
        narrows: true,
        summary: "Run an agent for a user interface",
        description:
          "A run of AG-UI 1.0: the first run of a thread starts a job, a run with `resume` answers its questions. Streams the events of AG-UI until the job has ended or asks something. Of a chat agent, each run is a turn of the thread, with the last message of the user.",
        tag: "AG-UI",
        params: v.object({ slug: v.string() }),
        body: InputSchema,
        responses: { 200: { description: "The events", contentType: "text/event-stream" } },
        handler: async ({ params, body, event, caller }) => {
          const base = baseUrl(get(SERVICE_STATE), prefix, event);
          const { agents, jobs, cases, runner, threads, feed } = seen(caller);
          const { slug, definition } = agents.get(params.slug);
          const id = threadIdOf(slug, body.threadId);
          const before = await jobs.find(id);
          if (before && before.agent_name !== slug)
            throw new ServiceError("invalid_request", `Thread "${body.threadId}" belongs to another agent`);
          let events: AsyncGenerator<object, void> | undefined;
          const stream = (open: (signal: AbortSignal) => AsyncGenerator<object, void>) =>
            streams.open(
              async (signal) => {
                events ??= open(signal);
                const { value, done } = await events.next();
                return done ? undefined : `data: ${JSON.stringify(value)}\n\n`;
              },
              { caller },
            );
          if (definition.chats) {
            const turn = await takeMessage(threads, { slug, id }, body, caller);
            return stream((signal) => toChatEvents({ threads, jobs }, turn, { ...body, base, signal }));
          }
          const isLater = body.messages.filter(({ role }) => role === "user").length > 1;
          if (before && isTerminal(before.status) && isLater && body.resume.length === 0) {
            throw new ServiceError("invalid_transition", `The job of thread "${body.threadId}" has ended`, {
              detail: "The agent takes no further message: start a new thread, or make it a chat agent.",
            });
          }
          const parts = { jobs, cases, feed, store: get(STORE), clock: get(CLOCK) };
          const startJob = () => {
            const job_fields = readInput(body, definition);
            return runner.start(slug, { job_context: { job_id: id, started_by: STARTED_BY }, job_fields });
          };
          // The same input starts nothing again, and another one is refused: its words would be lost.
          const isSameStart = before?.job_context.started_by === STARTED_BY && !isLater && hasInput(body);
          if (isSameStart && body.resume.length === 0) await startJob();
          const key = keyOfRun(body);
          // A run without answers shows what has happened from the beginning.
          const answers = before ? body.resume : [];
          const known = before && answers.length > 0 ? await startOf(parts, { job: before, key }) : undefined;
          const job = before ?? (await startJob());
          const first = await findFirst(parts, { job, key });
          for (const { interruptId, status, payload } of first ? [] : answers) {
            if (status !== "resolved") continue;
            const values = v.is(JsonMapSchema, payload) ? payload : {};
            await answerByKey({ cases, runner }, before!, { key: interruptId, values }, caller);
          }
          const start = known ?? startOfNew(job);
          return stream((signal) =>
            toEvents(tellStory(parts, { job, key }, { start, signal }), { ...body, base }),
          );
        },
      }),
    );
  },
}) as (options?: AgUiOptions) => Plugin;

/** Whether a run says what its job is to do. */
function hasInput({ messages, forwardedProps }: Input): boolean {
  const { fields } = (forwardedProps ?? {}) as { fields?: unknown };
  return fields !== undefined || messages.some(({ role }) => role === "user");
}

/** A run is the same as one before with its id that says the same. */
function keyOfRun({ runId, messages, resume, forwardedProps }: Input): string {
  const said = JSON.stringify(inOrder({ messages, resume, forwardedProps }));
  return `ag-ui ${runId} ${hash("sha256", said, "base64url")}`;
}

/** The fields of a job: `forwardedProps.fields`, and the text of the last message of the user. */
function readInput({ messages, forwardedProps }: Input, definition: AgentDefinition) {
  const data = (forwardedProps as { fields?: unknown } | null | undefined)?.fields;
  const content = messages.findLast(({ role }) => role === "user")?.content;
  const { content: text, files } = readContent(content ?? "");
  if (files.length > 0 && !definition.chats && !fieldsOf(definition.methods.job_start).hasFiles) {
    const parts = content as readonly { readonly type?: unknown }[];
    throw unsupported(parts.find(({ type }) => type !== "text")?.type);
  }
  try {
    return readJobFields(definition, [{ data }, { text }, ...files.map((file) => ({ file }))]);
  } catch (error) {
    throw new ServiceError("invalid_parameters", (error as Error).message);
  }
}
