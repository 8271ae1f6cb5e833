import type { NamesOf } from "../core/base/refuse-unknown.ts";
import type { TokenScope } from "../core/http/job-tokens.ts";
import type { Case } from "../core/models/case.ts";
import type { FileValue } from "../core/models/file.ts";
import type { Job } from "../core/models/job.ts";
import type { Http, RequestOptions } from "./http.ts";
import { type JobEvent, jobEvents, type StreamOptions } from "./job-events.ts";
import { jobResult } from "./job-result.ts";
import { newId } from "./new-id.ts";
import { onlyKnown, SIGNAL } from "./only-known.ts";
import { type Uploaded, upload } from "./upload.ts";

/** A job as read from the service; its result is `null` until it has completed. */
export interface TypedJob<Result = unknown> extends Omit<Job, "result"> {
  readonly result: Result | null;
}

export interface CasesOptions extends RequestOptions {
  /** @default 100; up to 1000 */
  readonly limit?: number;
  /** @default 0 */
  readonly skip?: number;
  /** The newest updates of each case. @default 100; up to 1000 */
  readonly updates?: number;
}

export interface AnswerOptions extends RequestOptions {
  /** A message to the agent. */
  readonly message?: string;
}

export interface MessageOptions extends RequestOptions {
  /** @default a new one */
  readonly id?: string;
}

export interface SendOptions extends MessageOptions {
  /** Files of the message, as `upload` of the client gives them. */
  readonly files?: readonly Uploaded[];
}

export interface TokenOptions extends RequestOptions {
  /** Seconds for which it works, 1 to 86,400. @default 900 */
  readonly expiresIn?: number;
  /** What it shows, and what may be done with it. @default status: the state of the job, not its record */
  readonly scopes?: readonly TokenScope[];
  /** Who uses it: shown with the answers and in the audit log. */
  readonly name?: string;
}

/** A token of one job. */
export interface JobToken {
  readonly token: string;
  readonly job_id: string;
  readonly scopes: readonly TokenScope[];
  /** ISO 8601. */
  readonly expires_at: string;
}

const CASES: NamesOf<CasesOptions> = { limit: true, skip: true, updates: true, ...SIGNAL };
const ANSWER: NamesOf<AnswerOptions> = { message: true, ...SIGNAL };
const MESSAGE: NamesOf<MessageOptions> = { id: true, ...SIGNAL };
const SEND: NamesOf<SendOptions> = { files: true, ...MESSAGE };
const REVOKE: NamesOf<Pick<TokenOptions, "name" | "signal">> = { name: true, ...SIGNAL };
const TOKEN: NamesOf<TokenOptions> = { expiresIn: true, scopes: true, name: true, ...SIGNAL };

/** A job on the service. Calls reject with `ClientError`. */
export class RemoteJob<Result = unknown> {
  readonly id: string;
  readonly #http: Http;
  readonly #path: string;

  constructor(http: Http, id: string) {
    this.id = id;
    this.#http = http;
    this.#path = `/jobs/${encodeURIComponent(id)}`;
  }

  /** Whether this is the same job of the same service, for a caller with the same key. */
  isSame(other: RemoteJob<unknown>): boolean {
    return this.id === other.id && this.#http.isSame(other.#http);
  }

  /**
   * Its result, once it has completed: waits for days, and through restarts of the service. Rejects with
   * `JobFailedError` if it failed or was cancelled.
   */
  async result(options: RequestOptions = {}): Promise<Result> {
    return jobResult(this.#http, this.#path, onlyKnown(options, SIGNAL, "result")) as Promise<Result>;
  }

  /**
   * What happens to it, until it has ended: each entry of its record once and in order, also if connections break or
   * the service restarts.
   *
   * @example
   * for await (const event of job.stream()) if (event.type === "entry") console.log(event.entry);
   */
  stream(options: StreamOptions = {}): AsyncGenerator<JobEvent, void> {
    return jobEvents(this.#http, this.#path, onlyKnown(options, { after: true, ...SIGNAL }, "stream"));
  }

  /** Its current state. */
  async read(options: RequestOptions = {}): Promise<TypedJob<Result>> {
    const { signal } = onlyKnown(options, SIGNAL, "read");
    return this.#http.json(`${this.#path}/result`, { signal });
  }

  /** Its cases, oldest first, with their open questions. */
  async cases(options: CasesOptions = {}): Promise<Case[]> {
    const { limit = 100, skip = 0, updates = 100, signal } = onlyKnown(options, CASES, "cases");
    const query = `limit=${limit}&skip=${skip}&updates=${updates}`;
    return this.#http.json(`${this.#path}/cases?${query}`, { signal });
  }

  /**
   * Answers the open question of a case; the first answer wins, a later one rejects with `invalid_transition`. Where the
   * response is lost, the request is sent again under the same key, which answers nothing else.
   */
  async answer(
    caseId: string,
    answer: Readonly<Record<string, unknown>>,
    options: AnswerOptions = {},
  ): Promise<void> {
    const { message, signal } = onlyKnown(options, ANSWER, "answer");
    const path = `${this.#path}/cases/${encodeURIComponent(caseId)}/update`;
    const headers = { "idempotency-key": newId("answer") };
    const json = { answer, message: message ?? null };
    await this.#http.send(path, { method: "POST", repeatable: true, headers, json, signal });
  }

  /**
   * Sends a file for an answer, and resolves with what a field takes in its place; a token with the scope `answer` allows
   * it.
   */
  upload(
    file: Blob,
    options?: RequestOptions & {
      /** @default the name of the `File` */
      readonly name?: string;
      /** Called with the bytes that have arrived, and with all of them. */
      readonly onProgress?: (sent: number, total: number) => void;
    },
  ): Promise<{ readonly upload: string }> {
    return upload(this.#http, `${this.#path}/uploads`, file, options);
  }

  /** Its files, oldest first: those that it was given, and those that it has made. */
  async files(options: RequestOptions = {}): Promise<
    (FileValue & {
      readonly origin: "field" | "answer" | "step";
      readonly case_id: string | null;
      readonly created_at: string;
      /** What it is to people, such as `report`, where its agent has said so. */
      readonly artifact?: string | undefined;
      readonly title?: string | undefined;
    })[]
  > {
    const { signal } = onlyKnown(options, SIGNAL, "files");
    return this.#http.json(`${this.#path}/files`, { signal });
  }

  /** The content of one of its files. */
  async download({ sha256 }: Pick<FileValue, "sha256">, options: RequestOptions = {}): Promise<Blob> {
    const { signal } = onlyKnown(options, SIGNAL, "download");
    return (await this.#http.send(`${this.#path}/files/${sha256}`, { signal })).blob();
  }

  /** Sends a message to a job that is a thread of a chat; the same id again adds nothing. Resolves with the message's id. */
  async send(content: string, options: SendOptions = {}): Promise<string> {
    const { id = newId("message"), files, signal } = onlyKnown(options, SEND, "send");
    const json = { content, id, ...(files && { files }) };
    await this.#http.send(`${this.#path}/messages`, { method: "POST", repeatable: true, json, signal });
    return id;
  }

  /**
   * Answers the open question of a case of a thread in a person's words, such as "sure, go ahead". One that is not clear or
   * does not fit changes nothing: `note` says why.
   */
  async reply(
    { id: case_id, question }: Pick<Case, "id" | "question">,
    content: string,
    options: MessageOptions = {},
  ): Promise<{ readonly accepted: boolean; readonly note: string | null }> {
    const { id = newId("message"), signal } = onlyKnown(options, MESSAGE, "reply");
    if (!question) throw new TypeError(`Case "${case_id}" asks nothing`);
    const json = { content, id, question: { case_id, id: question.id, asked_at: question.asked_at } };
    const request = { method: "POST", repeatable: true, json, signal } as const;
    const { answer } = await this.#http.json<{
      answer?: { readonly accepted: boolean; readonly note: string | null };
    }>(`${this.#path}/messages`, request);
    return answer ?? { accepted: false, note: "The message was sent before, and was no answer." };
  }

  /** Asks it to stop; a job that has ended stays as it is. */
  async stop(options: RequestOptions = {}): Promise<void> {
    const { signal } = onlyKnown(options, SIGNAL, "stop");
    await this.#http.send(`${this.#path}/stop`, { method: "POST", repeatable: true, signal });
  }

  /** Makes a token with which a browser can use this job, and nothing else. Needs the API key. */
  async token(options: TokenOptions = {}): Promise<JobToken> {
    const { expiresIn, scopes, name, signal } = onlyKnown(options, TOKEN, "token");
    const json = { expires_in: expiresIn, scopes, name };
    return this.#http.json(`${this.#path}/tokens`, { method: "POST", json, signal });
  }

  /**
   * Revokes the tokens that were made so far, or those that were made for a user: on every instance within seconds. Needs
   * a key of the service.
   */
  async revokeTokens(options: Pick<TokenOptions, "name" | "signal"> = {}): Promise<void> {
    const { name, signal } = onlyKnown(options, REVOKE, "revokeTokens");
    const query = name === undefined ? "" : `?name=${encodeURIComponent(name)}`;
    await this.#http.send(`${this.#path}/tokens${query}`, { method: "DELETE", repeatable: true, signal });
  }
}
