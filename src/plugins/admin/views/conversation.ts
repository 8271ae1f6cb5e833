import { parseJson } from "../../../core/base/parse-json.ts";
import { type FileValue, filesIn } from "../../../core/models/file.ts";
import { renderMarkdown } from "../files/markdown.ts";
import { formatBytes, formatCount } from "./format.ts";
import { type Html, html } from "./html.ts";
import { renderJson } from "./json-tree.ts";
import { trusted } from "./pieces.ts";

/** A part of a message as a person reads it. */
type Part =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "call"; readonly name: string; readonly given: unknown }
  | { readonly kind: "result"; readonly name: string; readonly value: unknown }
  | { readonly kind: "file"; readonly file: FileValue }
  | { readonly kind: "other"; readonly value: unknown };

export interface Message {
  readonly role: string;
  readonly parts: readonly Part[];
}

/** Where the page of a file of the job is. */
export type FileLink = (file: FileValue) => string;

type Fields = Readonly<Record<string, unknown>>;

/** Characters of a text, and messages at the end of a conversation, that are shown. */
const LONGEST = 2000;
const SHOWN = 8;

/**
 * The conversation in the request of a model call, as the APIs of OpenAI and Anthropic and the AI SDK write it; nothing
 * where it is in no such form.
 */
export function readMessages(input: unknown): Message[] | undefined {
  if (typeof input === "string") return [{ role: "user", parts: [{ kind: "text", text: input }] }];
  const { messages, prompt, input: items, instructions, system } = fieldsOf(input);
  const first = [instructions, system].flatMap((text) =>
    text === undefined || text === null ? [] : [{ role: "system", parts: readContent(text) }],
  );
  const list = messages ?? items ?? prompt;
  if (typeof list === "string") return [...first, { role: "user", parts: readContent(list) }];
  return Array.isArray(list) ? [...first, ...list.map(readMessage)] : undefined;
}

/** The message in the answer of a model, in the same forms. */
export function readAnswer(result: unknown): Message | undefined {
  const { choices, content, output, parts } = fieldsOf(result);
  if (Array.isArray(choices)) return readMessage(fieldsOf(fieldsOf(choices[0]).message));
  const list = content ?? output ?? parts;
  if (!Array.isArray(list)) return undefined;
  const read = list.flatMap((one) => readPart(one, true));
  return read.length > 0 ? { role: "assistant", parts: read } : undefined;
}

/** Names of the tools that a request offers. */
export function readTools(input: unknown): string[] {
  const { tools } = fieldsOf(input);
  if (!Array.isArray(tools)) return [];
  return tools.map((tool) => String(fieldsOf(fieldsOf(tool).function).name ?? fieldsOf(tool).name ?? "tool"));
}

/** The end of a conversation; how many messages are before it is said. */
export function renderMessages(messages: readonly Message[], link?: FileLink): Html {
  const left = messages.length - SHOWN;
  const note =
    left > 0 ? html`<p class="soft">${formatCount(left)} earlier messages are in the job's log.</p>` : "";
  return html`${note}${messages.slice(-SHOWN).map((one) => renderMessage(one, link))}`;
}

function renderMessage({ role, parts }: Message, link: FileLink | undefined): Html {
  const shown = parts.map((part) => renderPart(part, link));
  return html`<div class="say"><b>${role}</b><div>${shown}</div></div>`;
}

/** What a model said, with its Markdown drawn. */
export function renderAnswer({ role, parts }: Message, link?: FileLink): Html {
  const shown = parts.map((part) =>
    part.kind === "text" ? renderMarkdown(cut(part.text)) : renderPart(part, link),
  );
  return html`<div class="say"><b>${role}</b><div>${shown}</div></div>`;
}

function renderPart(part: Part, link: FileLink | undefined): Html {
  if (part.kind === "text") return html`<p class="t-text">${cut(part.text)}</p>`;
  if (part.kind === "file") {
    const { name, type, size } = part.file;
    const about = html`<bdi>${name}</bdi> <span class="soft">${type} · ${formatBytes(size)}</span>`;
    return link ? html`<p><a href="${link(part.file)}">${about}</a></p>` : html`<p>${about}</p>`;
  }
  if (part.kind === "call")
    return html`<div class="soft">calls <b>${part.name}</b></div>${trusted(renderJson(part.given))}`;
  if (part.kind === "result")
    return html`<div class="soft">${part.name ? html`<b>${part.name}</b> gave` : "result"}</div>${shown(part.value)}`;
  return trusted(renderJson(part.value));
}

function shown(value: unknown): Html {
  return typeof value === "string" ? html`<p class="t-text">${cut(value)}</p>` : trusted(renderJson(value));
}

function cut(text: string): string {
  const left = text.length - LONGEST;
  return left > 0 ? `${text.slice(0, LONGEST)}… (${formatCount(left)} more characters)` : text;
}

function readMessage(given: unknown): Message {
  const message = fieldsOf(given);
  const role = typeof message.role === "string" ? message.role : roleOf(message.type);
  if (message.role === "tool" && typeof message.tool_call_id === "string")
    return { role, parts: [{ kind: "result", name: "", value: parse(message.content) }] };
  if (typeof message.role !== "string") return { role, parts: readPart(message, false) };
  const calls = Array.isArray(message.tool_calls)
    ? message.tool_calls.flatMap((one) => readPart(one, false))
    : [];
  const refusal = typeof message.refusal === "string" ? readContent(message.refusal) : [];
  return { role, parts: [...readContent(message.content), ...refusal, ...calls] };
}

/** Items of the responses API have types in place of roles. */
function roleOf(type: unknown): string {
  if (type === "function_call_output") return "tool";
  return type === "function_call" || type === "reasoning" ? "assistant" : String(type ?? "message");
}

function readContent(content: unknown): Part[] {
  if (content === null || content === undefined || content === "") return [];
  if (typeof content === "string") return [{ kind: "text", text: content }];
  return Array.isArray(content)
    ? content.flatMap((one) => readPart(one, false))
    : [{ kind: "other", value: content }];
}

/** The parts of a message. Those of an answer that say nothing to people are omitted. */
function readPart(given: unknown, isAnswer: boolean): Part[] {
  if (typeof given === "string") return [{ kind: "text", text: given }];
  const part = fieldsOf(given);
  const { type } = part;
  const called = fieldsOf(part.function);
  if (typeof called.name === "string")
    return [{ kind: "call", name: called.name, given: parse(called.arguments) }];
  switch (type) {
    case "message":
      return readContent(part.content);
    case "text-delta":
      return [{ kind: "text", text: String(part.delta ?? part.text ?? "") }];
    case "tool-call":
      return [{ kind: "call", name: String(part.toolName), given: parse(part.input ?? part.args) }];
    case "tool-result":
      return [
        { kind: "result", name: String(part.toolName ?? ""), value: unwrapped(part.output ?? part.result) },
      ];
    case "tool_use":
      return [{ kind: "call", name: String(part.name), given: part.input }];
    case "tool_result":
      return [{ kind: "result", name: "", value: textOf(part.content) }];
    case "function_call":
      return [{ kind: "call", name: String(part.name), given: parse(part.arguments) }];
    case "function_call_output":
      return [{ kind: "result", name: "", value: parse(part.output) }];
  }
  if (typeof part.text === "string") return [{ kind: "text", text: part.text }];
  const files = [...filesIn(given).values()];
  if (files.length > 0) return files.map((file) => ({ kind: "file", file }));
  const isSilent =
    isAnswer && typeof type === "string" && /-(?:start|end|delta)$|^(?:finish|response-metadata)$/.test(type);
  return isSilent ? [] : [{ kind: "other", value: given }];
}

/** The AI SDK wraps results of tools. */
function unwrapped(output: unknown): unknown {
  const { type, value } = fieldsOf(output);
  return typeof type === "string" && value !== undefined ? value : output;
}

function textOf(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  const texts = content.map((one) => fieldsOf(one).text);
  return texts.every((text) => typeof text === "string") ? texts.join("\n") : content;
}

function parse(json: unknown): unknown {
  return typeof json === "string" ? parseJson(json, json) : json;
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}
