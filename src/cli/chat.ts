import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline/promises";
import { setTimeout as pause } from "node:timers/promises";
import * as v from "valibot";
import type { TurnDelivery } from "../core/agents/define-chat.ts";
import { option } from "../core/base/option.ts";
import { TurnText } from "../core/conversations/turn-text.ts";
import type { Case } from "../core/models/case.ts";
import type { Job } from "../core/models/job.ts";
import type { JobResponse } from "../core/models/job-response.ts";
import { keyOf } from "../core/models/question-key.ts";
import { defineCommand } from "./command.ts";
import type { CliContext } from "./context.ts";
import { CliError, UsageError } from "./errors.ts";
import { listChatAgents } from "./first-command.ts";
import { CONNECTION_FLAGS, connect } from "./job/connection.ts";
import { mayReturn } from "./job/follow-job.ts";
import { listCases } from "./job/list-cases.ts";
import { describeQuestion } from "./job/question.ts";
import type { ServiceClient } from "./job/service-client.ts";
import { newJobId } from "./job/start.ts";
import { uploadPath } from "./job/upload-files.ts";
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
  file: option.list("send this file with the message (repeatable; needs --message)", "path"),
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
    const paths = flags.file ?? [];
    if (paths.length > 0 && flags.message === undefined)
      throw new UsageError("--file is for one message", "Name it with --message.");
    const client = await connect(flags, context);
    const slug = args[0]!;
    const id = await openThread(client, slug, flags.thread, context);
    const thread = new Thread(client, { slug, id }, context, flags.json);
    try {
      if (flags.message !== undefined)
        return (await thread.say(flags.message, { id: flags.id, paths })) ? 0 : 1;
      return await converse(thread, context);
    } finally {
      if (!flags.json) context.note(`Continue with: ${client.command("chat", slug, "--thread", id)}`);
    }
  },
});

/** The id of the thread: of a new one, or of one that exists. */
async function openThread(
  client: ServiceClient,
  slug: string,
  id: string | undefined,
  context: CliContext,
): Promise<string> {
  const slugs = await listChatAgents(client);
  if (!slugs.includes(slug))
    throw new UsageError(`There is no chat agent "${slug}"`, `Chat agents: ${slugs.join(", ") || "none"}.`);
  if (id !== undefined) return (await client.get<JobResponse>(`/jobs/${encodeURIComponent(id)}`)).job_id;
  const job = await client.post<Job>(`/agents/${slug}/jobs`, {
    job_context: {
      ...(await client.starter(userName(context.env), undefined)),
      job_id: newJobId(),
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
    await thread.say(message);
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

/** What the service streams: the AI SDK's UI message stream. */
interface Chunk {
  readonly type: string;
  readonly delta?: string;
  readonly errorText?: string;
  readonly toolName?: string;
  readonly toolCallId?: string;
  readonly providerExecuted?: boolean;
  readonly input?: { readonly question?: string };
  readonly data?: { readonly name: string; readonly attempt: number; readonly error: string };
  readonly messageMetadata?: { readonly case_id?: string };
}

/** Seconds to wait for a service that restarts. */
const PATIENCE = 60;

class Thread {
  readonly #client: ServiceClient;
  readonly #of: { readonly slug: string; readonly id: string };
  readonly #context: CliContext;
  readonly #json: boolean;

  constructor(
    client: ServiceClient,
    of: { readonly slug: string; readonly id: string },
    context: CliContext,
    json: boolean,
  ) {
    this.#client = client;
    this.#of = of;
    this.#context = context;
    this.#json = json;
  }

  /** Sends a message and prints its answer as it comes; whether there was one. */
  async say(
    content: string,
    {
      id = randomUUID(),
      paths = [],
    }: { readonly id?: string | undefined; readonly paths?: readonly string[] } = {},
  ): Promise<boolean> {
    const parts: object[] = [{ type: "text", text: content }];
    for (const path of paths)
      parts.push({ type: "file", ...(await uploadPath(this.#client, path, this.#context)) });
    let message: object = { id, role: "user", parts };
    for (;;) {
      const turn = new Turn(this.#context, this.#json);
      for await (const chunk of this.#chunks(message, turn)) turn.add(chunk);
      const item = turn.caseId === undefined ? undefined : await this.#case(turn.caseId);
      if (turn.asked === undefined) return turn.end(item);
      turn.endLine();
      const part = await this.#answer(item, turn.asked);
      if (!part) return false;
      message = { role: "assistant", parts: [{ type: "dynamic-tool", ...turn.asked, ...part }] };
    }
  }

  /** The chunks of a turn. A request that is sent again gets them again, so one that was cut off is. */
  async *#chunks(message: object, turn: Turn): AsyncGenerator<Chunk, void> {
    const { slug, id } = this.#of;
    let isKnown = false;
    for (let away = 0; ; away++) {
      turn.startOver();
      try {
        const request = { id, messages: [message], client: "svc" };
        for await (const { data } of this.#client.events(`/chat/${slug}`, {
          json: request,
          repeatable: !isKnown,
        })) {
          isKnown = true;
          away = 0;
          if (data === "[DONE]") return;
          yield JSON.parse(data) as Chunk;
        }
      } catch (error) {
        if (!isKnown || !mayReturn(error) || away >= PATIENCE) throw error;
      }
      if (away === 0) this.#context.note("The service is unreachable; waiting for it …");
      await pause(1000);
    }
  }

  /** What a person answers, as the state of the part that asks; `undefined` without one. */
  async #answer(item: Case | undefined, { toolCallId, input }: Asked): Promise<object | undefined> {
    const isOpen = item?.question && toolCallId.startsWith(keyOf({ ...item, question: item.question }));
    // A message that is sent again gets its question again, also where that was answered since.
    if (!this.#context.interactive && !isOpen) {
      const text = `? ${input?.question ?? ""}\n  It was answered.`;
      this.#context.print(this.#json ? JSON.stringify(input) : text);
      return undefined;
    }
    // Somebody else has answered: what came of it follows.
    const none = { toolCallId, state: "output-error" };
    if (!item?.question) return none;
    const { question, fields } = item.question;
    if (!this.#context.interactive) {
      this.#context.print(this.#json ? JSON.stringify(item.question) : describeQuestion(item, this.#client));
      return undefined;
    }
    const { promptFields } = await import("./job/prompt-fields.ts");
    try {
      return { state: "output-available", output: await promptFields(question, fields) };
    } catch (error) {
      // Escape was pressed.
      if (!(error instanceof CliError)) throw error;
      this.#context.print(error.message);
      return (await this.#case(item.id))?.question ? undefined : none;
    }
  }

  async #case(id: string): Promise<Case | undefined> {
    return (await listCases(this.#client, this.#of.id, 20)).find((item) => item.id === id);
  }
}

/** The part of a message that asks a person. */
interface Asked {
  readonly toolName: string;
  readonly toolCallId: string;
  readonly input: { readonly question?: string } | undefined;
}

/** Prints one answer. */
class Turn {
  caseId: string | undefined;
  asked: Asked | undefined;
  readonly #context: CliContext;
  readonly #json: boolean;
  readonly #text = new TurnText();
  readonly #noted = new Set<string>();
  #connection = 0;
  #index = 0;
  #error: string | undefined;
  #line = "";

  constructor(context: CliContext, json: boolean) {
    this.#context = context;
    this.#json = json;
  }

  /** What follows starts with what has been printed. */
  startOver(): void {
    this.#connection++;
    this.#index = 0;
  }

  add({ type, ...chunk }: Chunk): void {
    this.caseId = chunk.messageMetadata?.case_id ?? this.caseId;
    const { toolName = "", toolCallId = "", input, delta } = chunk;
    if (delta !== undefined) {
      const of = { position: 0, run: this.#connection, attempt: 1 };
      this.#write(this.#text.add({ ...of, index: this.#index++, chunks: [delta] }));
    } else if (type === "error") this.#error = chunk.errorText ?? "";
    else if (type === "data-attempt" && chunk.data) {
      const { name, attempt, error } = chunk.data;
      this.#note(`${name} failed, attempt ${attempt}: ${error}`);
    } else if (type === "tool-input-available" && chunk.providerExecuted)
      this.#note(`· ${toolName}`, toolCallId);
    else if (type === "tool-input-available") this.asked ??= { toolName, toolCallId, input };
  }

  /** What the agent does besides writing. */
  #note(text: string, of = text): void {
    if (this.#json || this.#noted.has(of)) return;
    this.#noted.add(of);
    this.#context.note(text);
  }

  end(item: Case | undefined): boolean {
    if (this.#error !== undefined || item?.status !== "completed") {
      this.endLine();
      this.#context.note(`The answer failed${this.#error ? `: ${this.#error}` : ""}`);
      return false;
    }
    const delivery = item.final_delivery as unknown as TurnDelivery;
    if (this.#json) this.#context.print(JSON.stringify(delivery));
    else this.endLine();
    return true;
  }

  #write(text: string): void {
    if (this.#json || text === "") return;
    this.#line += text;
    this.#context.write?.(text);
  }

  endLine(): void {
    if (this.#line !== "") this.#context.print(this.#context.write ? "" : this.#line);
    this.#line = "";
  }
}
