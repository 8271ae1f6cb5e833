import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline/promises";
import * as v from "valibot";
import type { TurnDelivery } from "../core/agents/define-chat.ts";
import { option } from "../core/base/option.ts";
import { TurnText } from "../core/conversations/turn-text.ts";
import type { Case } from "../core/models/case.ts";
import type { Job } from "../core/models/job.ts";
import type { RunEntry } from "../core/models/run-entry.ts";
import { defineCommand } from "./command.ts";
import type { CliContext } from "./context.ts";
import { CliError, UsageError } from "./errors.ts";
import { listChatAgents } from "./first-command.ts";
import { answerPath } from "./job/answer.ts";
import { CONNECTION_FLAGS, connect } from "./job/connection.ts";
import { followJob, type JobEvent } from "./job/follow-job.ts";
import { listCases } from "./job/list-cases.ts";
import { describeQuestion } from "./job/question.ts";
import type { ServiceClient } from "./job/service-client.ts";
import { newJobId } from "./job/start.ts";
import { userName } from "./job/user-name.ts";
import { withPrintable } from "./printable.ts";

const flags = v.object({
  thread: option.text("continue this thread"),
  message: v.optional(
    v.pipe(
      v.string(),
      v.description("send one message, print its answer and end"),
      v.metadata({ alias: "m" }),
    ),
  ),
  id: option.ruled(
    v.regex(/^[^\s/]{1,200}$/, "must be 1 to 200 characters without white space or '/'"),
    "id of the message: sent again with the same id, it adds nothing (needs --thread)",
  ),
  ...CONNECTION_FLAGS,
});

/** `svc chat`: a conversation with an agent, at the terminal. */
export const chat = defineCommand({
  usage: "chat <agent>",
  summary: "Chat with an agent of a running service",
  flags,
  examples: ["svc chat assistant", "svc chat assistant --thread billing-7 --message 'What is still open?'"],
  async run({ args, flags, context: given }) {
    const context = withPrintable(given);
    if (flags.message === undefined && !context.interactive)
      throw new UsageError("There is no terminal to chat at", "Send one message with --message.");
    if (flags.id !== undefined && (flags.message === undefined || flags.thread === undefined))
      throw new UsageError(
        "--id is the id of one message to a thread",
        "Name both with --message and --thread.",
      );
    const client = await connect(flags, context);
    const slug = args[0]!;
    const id = await openThread(client, slug, flags.thread, context);
    const thread = new Thread(client, id, context, flags.json);
    try {
      if (flags.message !== undefined) return (await thread.say(flags.message, flags.id)) ? 0 : 1;
      return await converse(thread, context);
    } finally {
      await thread.close();
      if (!flags.json) context.note(`Continue with: npx svc chat ${slug} --thread ${id}`);
    }
  },
});

/** The id of the thread, which is started if it does not exist. */
async function openThread(
  client: ServiceClient,
  slug: string,
  id: string | undefined,
  context: CliContext,
): Promise<string> {
  const slugs = await listChatAgents(client);
  if (!slugs.includes(slug))
    throw new UsageError(`There is no chat agent "${slug}"`, `Chat agents: ${slugs.join(", ") || "none"}.`);
  if (id !== undefined) return id;
  const job = await client.post<Job>(`/agents/${slug}/jobs`, {
    job_context: {
      ...{ workspace_id: "local", job_id: newJobId(), started_by: userName(context.env) },
      ...{ started_at: new Date().toISOString(), mission_id: "command-line", mission_name: slug },
    },
  });
  return job.id;
}

async function converse(thread: Thread, context: CliContext): Promise<number> {
  for (;;) {
    const message = await readMessage();
    if (message === undefined) return 0;
    if (message.trim() === "") continue;
    if (!(await thread.say(message)) && thread.isOver) return 1;
    context.print("");
  }
}

/** `undefined` when the person ends the conversation. Nothing else reads the terminal meanwhile. */
async function readMessage(): Promise<string | undefined> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  try {
    const closed = new Promise<undefined>((resolve) => lines.once("close", () => resolve(undefined)));
    return await Promise.race([lines.question("> "), closed]);
  } catch {
    return undefined;
  } finally {
    lines.close();
  }
}

class Thread {
  isOver = false;
  readonly #client: ServiceClient;
  readonly #id: string;
  readonly #context: CliContext;
  readonly #json: boolean;
  readonly #events: AsyncGenerator<JobEvent>;

  constructor(client: ServiceClient, id: string, context: CliContext, json: boolean) {
    this.#client = client;
    this.#id = id;
    this.#context = context;
    this.#json = json;
    this.#events = followJob(client, id);
  }

  /** Sends a message and prints its answer as it comes; whether there was one. */
  async say(content: string, id: string = randomUUID()): Promise<boolean> {
    await this.#client.post(`/jobs/${encodeURIComponent(this.#id)}/messages`, { content, id });
    const turn = new Turn(this.#context, this.#json);
    let isNext = false;
    for (;;) {
      const { value: event, done } = await this.#events.next();
      if (done) return this.#ended("");
      if (event.type === "end") return this.#ended(`: it is ${event.status}`);
      if (event.type === "reconnecting") this.#context.note("The service is unreachable; waiting for it …");
      if (event.type === "chunk") turn.add(event.emitted);
      if (event.type !== "entry") continue;
      const { entry } = event;
      if (turn.caseId === undefined) {
        if (entry.type === "call" && entry.call === "event") isNext ||= isEvent(entry.result, id);
        else if (entry.type === "call" && entry.call === "open_case" && isNext)
          turn.caseId = String(entry.result);
        continue;
      }
      if (entry.case_id !== turn.caseId) continue;
      if (entry.type === "begun" && entry.call === "ask") {
        if (!(await this.#answer(turn.caseId))) return false;
      } else if (isClose(entry)) {
        const item = await this.#case(turn.caseId);
        return turn.end(item);
      } else turn.note(entry);
    }
  }

  #ended(how: string): false {
    this.isOver = true;
    this.#context.note(`The thread has ended${how}`);
    return false;
  }

  async close(): Promise<void> {
    await this.#events.return(undefined);
  }

  /** Asks the person, where there is one; whether the turn continues. */
  async #answer(caseId: string): Promise<boolean> {
    const item = await this.#case(caseId);
    if (!item?.question) return true;
    const { question, fields } = item.question;
    if (!this.#context.interactive) {
      this.#context.print(this.#json ? JSON.stringify(item.question) : describeQuestion(item));
      return false;
    }
    const { promptFields } = await import("./job/prompt-fields.ts");
    try {
      await this.#client.post(answerPath(item), {
        answer: await promptFields(question, fields),
        message: null,
      });
      return true;
    } catch (error) {
      // Escape was pressed, or somebody else answered first.
      if (!(error instanceof CliError)) throw error;
      this.#context.print(error.message);
      return (await this.#case(caseId))?.question == null;
    }
  }

  async #case(id: string): Promise<Case | undefined> {
    return (await listCases(this.#client, this.#id, 20)).find((item) => item.id === id);
  }
}

/** Prints one answer. */
class Turn {
  caseId: string | undefined;
  readonly #context: CliContext;
  readonly #json: boolean;
  readonly #text = new TurnText();
  #line = "";

  constructor(context: CliContext, json: boolean) {
    this.#context = context;
    this.#json = json;
  }

  add(emitted: Parameters<TurnText["add"]>[0]): void {
    if (emitted.case_id === this.caseId && this.caseId !== undefined) this.#write(this.#text.add(emitted));
  }

  /** What the agent does besides writing. */
  note(entry: RunEntry): void {
    if (this.#json) return;
    if (entry.type === "attempt")
      this.#context.note(`${entry.name} failed, attempt ${entry.attempt}: ${entry.error}`);
    if (entry.type === "call" && entry.call === "step" && entry.kind === "tool")
      this.#context.note(`· ${entry.name}`);
  }

  end(item: Case | undefined): boolean {
    if (item?.status !== "completed") {
      const error = item?.updates.findLast(({ error }) => error)?.error;
      this.#endLine();
      this.#context.note(`The answer failed${error ? `: ${error}` : ""}`);
      return false;
    }
    const delivery = item.final_delivery as unknown as TurnDelivery;
    if (this.#json) this.#context.print(JSON.stringify(delivery));
    else {
      this.#write(this.#text.finish(delivery.answer));
      this.#endLine();
    }
    return true;
  }

  #write(text: string): void {
    if (this.#json || text === "") return;
    this.#line += text;
    this.#context.write?.(text);
  }

  #endLine(): void {
    if (this.#line !== "") this.#context.print(this.#context.write ? "" : this.#line);
    this.#line = "";
  }
}

function isClose(entry: RunEntry): boolean {
  return entry.type === "call" && entry.call === "close";
}

function isEvent(result: unknown, id: string): boolean {
  return (result as { id?: unknown } | null)?.id === id;
}
