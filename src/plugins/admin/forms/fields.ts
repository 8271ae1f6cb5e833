import { countOf } from "../../../core/base/count-of.ts";
import { parseJson } from "../../../core/base/parse-json.ts";
import { readSwitch } from "../../../core/base/switch.ts";
import type { AgentMethodField } from "../../../core/models/agent-method-field.ts";
import { toLabel } from "../views/format.ts";
import { type Html, html } from "../views/html.ts";

/** Prefix of the names of fields that agents declare: they cannot collide with our own. */
const PREFIX = "f.";

/** The state of a form: typed values, and problems. */
export interface FormState {
  /** Texts as typed; a field that was not sent is absent. */
  readonly typed?: URLSearchParams;
  /** Problems by field name. */
  readonly problems?: Readonly<Record<string, string>>;
  /** Makes ids unique on a page with several forms. */
  readonly id: string;
}

/** How a form with these fields is sent: with files, in parts. */
export function encodingOf(fields: readonly AgentMethodField[]): string {
  const hasFiles = fields.some(({ field_type }) => field_type === "FileField");
  return hasFiles ? 'enctype="multipart/form-data" hx-encoding="multipart/form-data"' : "";
}

/** The inputs of a form for an agent's fields. The first one that has a problem has the focus. */
export function renderFields(fields: readonly AgentMethodField[], state: FormState): Html {
  const first = fields.find(({ name }) => state.problems?.[name] !== undefined);
  return html`${fields.map((field, index) =>
    renderField(field, { id: `${state.id}-${index}`, state, focus: field === first }),
  )}`;
}

function renderField(
  field: AgentMethodField,
  { id, state, focus }: Pick<InputState, "id" | "state" | "focus">,
): Html {
  const problem = state.problems?.[field.name];
  const label = toLabel(field.name);
  const hint = HINTS[field.field_type] ?? "";
  const about = field.description ?? "";
  const notes = [hint === "" ? about : about.replace(/(?<=[\p{L}\p{N})])$/u, "."), hint].filter(
    (note) => note !== "",
  );
  const described = [notes.length > 0 ? `${id}-note` : "", problem ? `${id}-problem` : ""].filter(
    (one) => one !== "",
  );
  const invalid = problem !== undefined;
  const input = inputOf(field, { id, state, described: described.join(" "), invalid, focus });
  const required =
    field.required && field.field_type !== "MultipleChoiceField"
      ? html` <span class="req" title="required">*</span>`
      : html``;
  const head =
    field.field_type === "BooleanField" && !field.required
      ? html`<label class="choice" for="${id}">${input} ${label}</label>`
      : isGroup(field)
        ? html`<span class="label" id="${id}-label">${label}${required}</span>${input}`
        : html`<label for="${id}">${label}${required}</label>${input}`;
  return html`<div class="field">${head}${notes.length > 0 ? html`<small id="${id}-note">${notes.join(" ")}</small>` : ""}${
    problem ? html`<span class="problem" id="${id}-problem">${problem}</span>` : ""
  }</div>`;
}

const HINTS: Readonly<Partial<Record<AgentMethodField["field_type"], string>>> = {
  JSONField: "JSON.",
  DateTimeField: "UTC.",
};

interface InputState {
  readonly id: string;
  readonly state: FormState;
  readonly described: string;
  readonly invalid: boolean;
  readonly focus: boolean;
}

function inputOf(field: AgentMethodField, { id, state, described, invalid, focus }: InputState): Html {
  const name = PREFIX + field.name;
  const typed = state.typed?.getAll(name);
  const texts = typed ?? toTexts(field.default, field.field_type);
  const text = texts[0] ?? "";
  const about = html`${described ? html` aria-describedby="${described}"` : ""}${invalid ? html` aria-invalid="true"` : ""}${
    field.required && !isGroup(field) ? html` required` : ""
  }${focus && !isGroup(field) ? html` autofocus` : ""}`;
  const radios = radiosOf(field);
  if (radios) {
    const chosen = typed ? text : String(field.default ?? "");
    return html`<div class="choices" role="radiogroup" aria-labelledby="${id}-label"${about}>${radios.map(
      ([value, label], at) =>
        html`<label class="choice"><input type="radio" name="${name}" value="${value}"${value === chosen ? html` checked` : ""}${focus && at === 0 ? html` autofocus` : ""}> ${label}</label>`,
    )}</div>`;
  }
  if (field.field_type === "BooleanField") {
    const on = typed ? typed.includes("true") : field.default === true;
    return html`<input type="checkbox" id="${id}" name="${name}" value="true"${on ? html` checked` : ""}${about}>`;
  }
  if (field.field_type === "ChoiceField") {
    // Nothing is preselected until a person selects it; a default is the agent's own choice.
    const options = [["", field.required ? "Choose…" : "–"] as const, ...choicesOf(field)];
    return html`<select class="input" id="${id}" name="${name}"${about}>${options.map(
      ([value, label]) =>
        html`<option value="${value}"${value === text ? html` selected` : ""}>${label}</option>`,
    )}</select>`;
  }
  if (field.field_type === "MultipleChoiceField") {
    return html`<div class="choices" role="group" aria-labelledby="${id}-label">${choicesOf(field).map(
      ([value, label]) =>
        html`<label class="choice"><input type="checkbox" name="${name}" value="${value}"${texts.includes(value) ? html` checked` : ""}> ${label}</label>`,
    )}</div>`;
  }
  if (field.field_type === "JSONField" || field.widget === "textarea") {
    const code = field.field_type === "JSONField" ? " code" : "";
    return html`<textarea class="input${code}" id="${id}" name="${name}" rows="4"${about}>${text}</textarea>`;
  }
  if (field.field_type === "FileField") return fileInput(field, { id, name, uploads: texts, about });
  const [type, more] = INPUTS[field.field_type] ?? (["text", html``] as const);
  return html`<input class="input" id="${id}" name="${name}" type="${type}"${more} value="${text}" autocomplete="off"${about}>`;
}

/** A file can be dropped on it. What was sent with a form that is shown again is not chosen again. */
function fileInput(
  { type, required }: AgentMethodField,
  { id, name, uploads, about }: { id: string; name: string; uploads: readonly string[]; about: Html },
): Html {
  const isList = type === "array";
  const kept = uploads.flatMap((text) => text.split(",")).filter((upload) => upload !== "");
  const note = isList
    ? `${countOf(kept.length, "file")} sent; choose others to add them.`
    : "The file is sent; choose another one to replace it.";
  return html`${kept.map((upload) => html`<input type="hidden" name="${name}" value="${upload}">`)}<input class="input drop" type="file" id="${id}" name="${name}"${isList ? html` multiple` : ""}${
    kept.length > 0 && required ? html`` : about
  }>${kept.length > 0 ? html`<small>${note}</small>` : ""}`;
}

/** A required boolean has two options, so that "no" is an explicit answer too. */
const YES_NO = [
  ["true", "Yes"],
  ["false", "No"],
] as const;

/** More choices than this are shown as a menu. */
const MOST_RADIOS = 5;

/** A few required choices: all are visible, and none is preselected. */
function radiosOf(field: AgentMethodField): readonly (readonly [string, string])[] | undefined {
  if (!field.required) return undefined;
  if (field.field_type === "BooleanField") return YES_NO;
  const choices = field.field_type === "ChoiceField" ? choicesOf(field) : [];
  return choices.length > 0 && choices.length <= MOST_RADIOS ? choices : undefined;
}

function isGroup(field: AgentMethodField): boolean {
  return field.field_type === "MultipleChoiceField" || radiosOf(field) !== undefined;
}

const INPUTS: Readonly<Partial<Record<AgentMethodField["field_type"], readonly [string, Html]>>> = {
  IntegerField: ["number", html` step="1"`],
  FloatField: ["number", html` step="any"`],
  DateField: ["date", html``],
  DateTimeField: ["datetime-local", html` step="1"`],
  EmailField: ["email", html``],
};

function choicesOf(field: AgentMethodField): (readonly [string, string])[] {
  return (field.choices ?? []).map((choice) => (typeof choice === "string" ? [choice, choice] : choice));
}

function toTexts(value: unknown, type: AgentMethodField["field_type"]): string[] {
  if (value === null || value === undefined) return [];
  // A file is of the job that has it: another one needs an upload of its own.
  if (type === "FileField") return [];
  if (type === "JSONField") return [JSON.stringify(value, undefined, 2)];
  if (Array.isArray(value)) return value.map(String);
  if (type === "DateTimeField") return [String(value).slice(0, 19)];
  return [String(value)];
}

/** Values as a form would send them. */
export function toTyped(
  fields: readonly AgentMethodField[],
  values: Readonly<Record<string, unknown>>,
): URLSearchParams {
  const typed = new URLSearchParams();
  for (const { name, field_type } of fields)
    if (Object.hasOwn(values, name))
      for (const text of toTexts(values[name], field_type)) typed.append(PREFIX + name, text);
  return typed;
}

/**
 * The submitted values of a form, by field name and converted to the field's type. Text that cannot be
 * converted stays text, so that validation reports the problem.
 */
export function readFields(
  form: URLSearchParams,
  fields: readonly AgentMethodField[],
): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const field of fields) {
    const value = readField(field, form.getAll(PREFIX + field.name));
    if (value === undefined) continue;
    Object.defineProperty(values, field.name, {
      value,
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  return values;
}

function readField(field: AgentMethodField, texts: readonly string[]): unknown {
  if (field.field_type === "BooleanField") {
    if (field.required && texts.length === 0) return undefined;
    const [first = "false", ...more] = texts;
    return (more.every((text) => text === first) ? readSwitch(first) : undefined) ?? texts.join(", ");
  }
  if (field.field_type === "MultipleChoiceField") return texts;
  if (field.field_type === "FileField") {
    const uploads = texts.flatMap((text) => text.split(",").map((upload) => ({ upload: upload.trim() })));
    const sent = uploads.filter(({ upload }) => upload !== "");
    if (sent.length === 0) return undefined;
    // One that is chosen again comes after the one that was sent before.
    return field.type === "array" ? sent : sent.at(-1);
  }
  const text = texts[0];
  if (text === undefined || text === "") return undefined;
  if (field.field_type === "IntegerField" || field.field_type === "FloatField") {
    const number = Number(text);
    return Number.isFinite(number) && text.trim() !== "" ? number : text;
  }
  if (field.field_type === "JSONField") return parseJson(text, text);
  // A browser sends the time without a zone; the form says that it is UTC.
  if (field.field_type === "DateTimeField")
    return /^[\d-]+T[\d:]+$/.test(text) ? `${withSeconds(text)}.000Z` : text;
  return text;
}

function withSeconds(text: string): string {
  return /T\d\d:\d\d$/.test(text) ? `${text}:00` : text;
}
