import { isUtf8 } from "node:buffer";
import { ServiceError } from "../base/errors.ts";
import { notUtf8 } from "./request-body.ts";
import type { HttpEvent } from "./route.ts";
import { assertPlain, incoming } from "./uploads.ts";

/** A file in a form: the name of its field, and what the sender says of it. */
export interface FormFile {
  readonly field: string;
  readonly name: string;
  readonly type: string | undefined;
  /** The fields that came before it. */
  readonly before: URLSearchParams;
}

/** Takes a file while it arrives, and gives the text that the form has in its place. */
export type TakeFile = (file: FormFile, content: AsyncIterable<Uint8Array>) => Promise<string>;

const LINE = Buffer.from("\r\n");
const HEAD_END = Buffer.from("\r\n\r\n");
/** Bytes of the headers of one part, and of all texts of a form; parts of a form. */
const MOST_HEAD = 8 * 1024;
const MOST_TEXT = 1024 * 1024;
const MOST_PARTS = 1000;

/** Whether the body of a request is a form with files. */
export function isMultipart({ req }: HttpEvent): boolean {
  return /^multipart\/form-data\s*;/i.test(req.headers.get("content-type") ?? "");
}

/**
 * Reads a form with files (RFC 7578) while it arrives: a file is passed on part by part, in the order of the form, and is
 * never held as a whole.
 */
export async function readMultipart(event: HttpEvent, takeFile: TakeFile): Promise<URLSearchParams> {
  // What is compressed is refused as that, whatever type it says to be.
  assertPlain(event);
  const body = new Arriving(incoming(event));
  const mark = Buffer.from(`\r\n--${boundaryOf(event)}`, "latin1");
  const form = new URLSearchParams();
  let text = 0;
  await collect(body.until(mark), MOST_HEAD, "what comes before the first part");
  for (let count = 0; !(await body.isEnd()); count++) {
    if (count === MOST_PARTS) throw invalid(`has more than ${MOST_PARTS} parts`);
    const head = await collect(body.until(HEAD_END), MOST_HEAD, "the header of a part");
    const { field, name, type } = readHead(head);
    if (name === undefined) {
      const value = await collect(body.until(mark), MOST_TEXT - text, "its text");
      text += value.length;
      form.append(field, toText(value));
      continue;
    }
    if (name !== "") {
      form.append(field, await takeFile({ field, name, type, before: form }, body.until(mark)));
      continue;
    }
    // A browser sends a part without a name for a field in which no file was chosen.
    if ((await collect(body.until(mark), 1, `the file without a name in "${field}"`)).length > 0)
      throw invalid(`has a file without a name in "${field}"`);
  }
  await body.discard();
  return form;
}

/** Bytes that arrive, read up to a mark. The source is never ended early: the response could not be sent then. */
class Arriving {
  readonly #source: AsyncIterator<Uint8Array>;
  // The first mark may come without the line before it.
  #held: Buffer = LINE;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** What comes before a mark, which is consumed as well. */
  async *until(mark: Buffer): AsyncGenerator<Buffer, void> {
    for (;;) {
      const at = this.#held.indexOf(mark);
      const end = at === -1 ? this.#held.length - mark.length + 1 : at;
      const given = this.#held.subarray(0, Math.max(0, end));
      this.#held = this.#held.subarray(at === -1 ? Math.max(0, end) : at + mark.length);
      if (given.length > 0) yield given;
      if (at !== -1) return;
      await this.#need();
    }
  }

  /** Whether the mark that was consumed is the last one; a mark before a part is followed by a new line. */
  async isEnd(): Promise<boolean> {
    while (this.#held.length < 2) await this.#need();
    if (this.#held.toString("latin1", 0, 2) === "--") return true;
    for (const _ of [0, 1]) await this.#skipSpace();
    if (!this.#held.subarray(0, 2).equals(LINE))
      throw invalid("has a boundary that is not on a line of its own");
    return false;
  }

  /** Reads what comes after the end, so that the connection can be used again. */
  async discard(): Promise<void> {
    while (!(await this.#source.next()).done);
  }

  async #skipSpace(): Promise<void> {
    while (this.#held[0] === 0x20 || this.#held[0] === 0x09) this.#held = this.#held.subarray(1);
    while (this.#held.length < 2) await this.#need();
  }

  async #need(): Promise<void> {
    const { value, done } = await this.#source.next();
    if (done) throw invalid("ended early");
    this.#held = this.#held.length === 0 ? Buffer.from(value) : Buffer.concat([this.#held, value]);
  }
}

async function collect(parts: AsyncIterable<Buffer>, most: number, what: string): Promise<Buffer> {
  const held: Buffer[] = [];
  let size = 0;
  for await (const part of parts) {
    size += part.length;
    if (size > most) throw invalid(`is too large: ${what}`);
    held.push(part);
  }
  return Buffer.concat(held);
}

function toText(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw notUtf8("form");
  return bytes.toString("utf8");
}

function boundaryOf({ req }: HttpEvent): string {
  const [, quoted, plain] =
    /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(req.headers.get("content-type") ?? "") ?? [];
  const boundary = quoted ?? plain;
  if (boundary !== undefined) return boundary;
  throw invalid("has no boundary in its Content-Type");
}

function readHead(head: Buffer): { field: string; name: string | undefined; type: string | undefined } {
  const headers = new Map(
    toText(head)
      .split("\r\n")
      .filter((line) => line !== "")
      .map((line) => {
        const colon = line.indexOf(":");
        return [line.slice(0, Math.max(0, colon)).trim().toLowerCase(), line.slice(colon + 1).trim()];
      }),
  );
  const disposition = headers.get("content-disposition") ?? "";
  const field = parameter(disposition, "name");
  if (!/^form-data\s*;/i.test(disposition) || field === undefined) throw invalid("has a part without a name");
  return { field, name: parameter(disposition, "filename"), type: headers.get("content-type") };
}

/** A parameter as browsers write it: quotes and line breaks are percent-encoded, and nothing else is. */
function parameter(header: string, name: string): string | undefined {
  const given = new RegExp(`;\\s*${name}="((?:\\\\"|[^"])*)"`, "i").exec(header)?.[1];
  const plain = given ?? new RegExp(`;\\s*${name}=([^\\s;"]+)`, "i").exec(header)?.[1];
  return plain
    ?.replace(/\\"|%22/g, '"')
    .replace(/%0D/gi, "\r")
    .replace(/%0A/gi, "\n");
}

function invalid(what: string): ServiceError {
  return new ServiceError("invalid_request", `The form ${what}`, {
    status: 400,
    detail: "Send it as multipart/form-data, as browsers do.",
  });
}
