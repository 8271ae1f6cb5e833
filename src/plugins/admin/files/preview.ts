import { isRecord } from "../../../core/base/is-record.ts";
import { parseJson } from "../../../core/base/parse-json.ts";
import type { FileValue } from "../../../core/models/file.ts";
import { isFetched, kindOf } from "../../../core/models/file-kind.ts";
import { formatBytes, formatCount } from "../views/format.ts";
import { type Html, html } from "../views/html.ts";
import { renderJson } from "../views/json-tree.ts";
import { trusted } from "../views/pieces.ts";
import { readCsv } from "./csv-rows.ts";
import { renderMarkdown } from "./markdown.ts";

/** Bytes of a text that are read to show it, and rows and columns of a table. */
export const READ = 64 * 1024;
const ROWS = 100;
const COLUMNS = 20;
const LONGEST_CELL = 300;
const SHORT_CELL = 24;

export interface Previewed {
  readonly file: FileValue;
  /** Where its content is, to be shown. */
  readonly href: string;
  /** The beginning of its content. */
  readonly read: (bytes: number) => Promise<Buffer>;
  /** The page of a PDF that is shown. @default 1 */
  readonly page?: number | undefined;
}

/**
 * A file as people see it beside what it is about. Text is escaped and in the page; what a browser draws is in an element
 * that runs nothing, HTML in a frame without scripts, an origin, or a way to other places.
 */
export async function renderPreview({ file, href, read, page }: Previewed): Promise<Html> {
  const kind = kindOf(file);
  const { name, size } = file;
  if (size === 0) return html`<p class="faint">The file is empty.</p>`;
  if (kind === "image") return html`<img src="${href}" alt="${name}" loading="lazy">`;
  if (kind === "pdf")
    return html`<iframe src="${href}#navpanes=0&page=${page ?? 1}" title="${name}" loading="lazy"></iframe>`;
  if (kind === "page")
    return html`<iframe src="${href}" title="${name}" sandbox loading="lazy" referrerpolicy="no-referrer"></iframe>`;
  if (kind === "audio")
    return html`<audio src="${href}" controls preload="none" aria-label="${name}"></audio>`;
  if (kind === "video")
    return html`<video src="${href}" controls preload="none" aria-label="${name}"></video>`;
  if (kind === "none" || isFetched(kind))
    return html`<p class="faint">Files of the type ${file.type} are not shown here.</p>`;
  const text = decode(await read(READ), size > READ);
  const cut =
    size > READ
      ? html`<p class="faint">The first ${formatBytes(READ)} of ${formatBytes(size)}; download it for the rest.</p>`
      : "";
  return html`${renderText(kind, text)}${cut}`;
}

function renderText(kind: "markdown" | "csv" | "json" | "diff" | "text", text: string): Html {
  if (kind === "markdown") return renderMarkdown(text);
  if (kind === "csv") return renderCsv(text);
  if (kind === "diff") return renderDiff(text);
  const value = kind === "json" ? parseJson(text, undefined) : undefined;
  if (value === undefined) return html`<pre class="block" tabindex="0">${text}</pre>`;
  return isRows(value) ? renderRows(value) : trusted(renderJson(value));
}

/** A character that is cut at the end of what was read is omitted. */
function decode(bytes: Buffer, isCut: boolean): string {
  const text = bytes.toString("utf8");
  return isCut ? text.replace(/\ufffd$/, "") : text;
}

function renderCsv(text: string): Html {
  const [head = [], ...rows] = readCsv(text, ROWS + 2);
  return table(head, rows);
}

type Row = Readonly<Record<string, unknown>>;

function isRows(value: unknown): value is readonly Row[] {
  return Array.isArray(value) && value.length > 0 && value.every(isRecord);
}

function renderRows(rows: readonly Row[]): Html {
  const names = [...new Set(rows.slice(0, ROWS + 1).flatMap((row) => Object.keys(row)))];
  const cells = rows.slice(0, ROWS + 1).map((row) =>
    names.map((name) => {
      const value = row[name];
      return value === undefined ? "" : typeof value === "string" ? value : toText(value);
    }),
  );
  return table(names, cells);
}

/** What is nested too deeply for `JSON.stringify` was still read by `JSON.parse`. */
function toText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return "…";
  }
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): Html {
  const cut = (text: string) => (text.length > LONGEST_CELL ? `${text.slice(0, LONGEST_CELL)}…` : text);
  // What is short stays on its line, such as a number or an id; a sentence has lines that can be read.
  const cell = (text: string) =>
    text.length > SHORT_CELL ? html`<td class="long">${cut(text)}</td>` : html`<td>${text}</td>`;
  const widest = Math.max(head.length, ...rows.map((row) => row.length));
  const notes = [
    ...(rows.length > ROWS ? [`The first ${formatCount(ROWS)} rows.`] : []),
    ...(widest > COLUMNS ? [`${formatCount(widest - COLUMNS)} more columns are not shown.`] : []),
  ];
  const body = rows.slice(0, ROWS).map((row) => html`<tr>${row.slice(0, COLUMNS).map(cell)}</tr>`);
  return html`<div class="scroll" tabindex="0"><table><thead><tr>${head
    .slice(0, COLUMNS)
    .map((one) => html`<th scope="col">${cut(one)}</th>`)}</tr></thead><tbody>${body}</tbody></table></div>${
    notes.length > 0 ? html`<p class="faint">${notes.join(" ")}</p>` : ""
  }`;
}

function renderDiff(text: string): Html {
  const toneOf = (line: string) =>
    /^(?:\+\+\+|---|@@|diff |index )/.test(line)
      ? "d-at"
      : line.startsWith("+")
        ? "d-in"
        : line.startsWith("-")
          ? "d-out"
          : "";
  const lines = text.split("\n").map((line) => {
    const tone = toneOf(line);
    return tone === "" ? html`${line}\n` : html`<span class="${tone}">${line}</span>\n`;
  });
  return html`<pre class="block diff" tabindex="0">${lines}</pre>`;
}
