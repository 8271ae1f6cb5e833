import { escapeHtml } from "../../../core/base/escape-html.ts";
import { type FileValue, isFileValue } from "../../../core/models/file.ts";
import { formatBytes, formatCount } from "./format.ts";

/** Bounds of one tree, so that a payload of megabytes still renders as a page. */
export interface TreeBounds {
  readonly nodes: number;
  readonly depth: number;
  readonly text: number;
}

const BOUNDS: TreeBounds = { nodes: 400, depth: 12, text: 2000 };
/** Lines of a text beyond which it starts closed, and characters of its first line in the summary. */
const OPEN_LINES = 40;
const SUMMARY = 80;
/** Entries of a collection beyond which it starts closed. */
const OPEN_UP_TO = 12;

/** A JSON value as nested lists of names and values, all of it escaped. */
export function renderJson(value: unknown, bounds: TreeBounds = BOUNDS): string {
  const state = { left: bounds.nodes, bounds };
  return `<div class="tree">${node(value, state, 0)}</div>`;
}

interface State {
  left: number;
  readonly bounds: TreeBounds;
}

function node(value: unknown, state: State, depth: number): string {
  state.left--;
  if (value === null || value === undefined) return '<span class="t-null">null</span>';
  if (typeof value === "string") return text(value, state.bounds.text);
  if (typeof value !== "object") return `<span class="t-atom">${escapeHtml(String(value))}</span>`;
  if (isFileValue(value)) return file(value);
  const entries: [string, unknown][] = Array.isArray(value)
    ? value.map((item, at) => [String(at), item])
    : Object.entries(value);
  const size = describe(entries.length, Array.isArray(value));
  if (entries.length === 0 || depth >= state.bounds.depth) return `<span class="t-size">${size}</span>`;
  const shown: string[] = [];
  for (const [key, item] of entries) {
    if (state.left <= 0) break;
    shown.push(`<dt>${escapeHtml(key)}</dt><dd>${node(item, state, depth + 1)}</dd>`);
  }
  const rest = entries.length - shown.length;
  const more = rest > 0 ? `<p class="t-size">${formatCount(rest)} more, not shown here</p>` : "";
  const list = `<dl>${shown.join("")}</dl>${more}`;
  if (depth === 0) return list;
  const open = depth < 3 && entries.length <= OPEN_UP_TO ? " open" : "";
  return `<details${open}><summary>${size}</summary>${list}</details>`;
}

/** A file is what it is called; its content has a page of its own. */
function file({ name, type, size, sha256 }: FileValue): string {
  return `<span class="t-text" title="${sha256}">${escapeHtml(name)}</span> <span class="t-size">${escapeHtml(type)} · ${formatBytes(size)}</span>`;
}

function text(value: string, longest: number): string {
  if (value === "") return '<span class="t-null">empty text</span>';
  const cut = value.length > longest;
  const shown = escapeHtml(cut ? value.slice(0, longest) : value);
  const more = cut
    ? ` <span class="t-size">… ${formatCount(value.length - longest)} more characters</span>`
    : "";
  const whole = `<span class="t-text">${shown}</span>${more}`;
  const lines = value.split("\n").length;
  if (lines <= OPEN_LINES) return whole;
  const start = escapeHtml(value.trimStart().split("\n", 1)[0]!.slice(0, SUMMARY));
  return `<details><summary>${start} … ${formatCount(lines)} lines</summary>${whole}</details>`;
}

function describe(count: number, list: boolean): string {
  if (list) return count === 1 ? "1 item" : `${formatCount(count)} items`;
  return count === 1 ? "1 field" : `${formatCount(count)} fields`;
}
