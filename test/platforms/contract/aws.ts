import { readContract } from "./folder.ts";

interface Model {
  readonly metadata: { readonly targetPrefix?: string; readonly protocol: string };
  readonly operations: Record<
    string,
    { readonly input?: { shape: string }; readonly output?: { shape: string } }
  >;
  readonly shapes: Record<string, Shape>;
}
interface Shape {
  readonly type: string;
  readonly members?: Record<string, { readonly shape: string; readonly locationName?: string }>;
  readonly required?: readonly string[];
  readonly member?: { readonly shape: string };
  readonly value?: { readonly shape: string };
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly min?: number;
  readonly max?: number;
}

/** Patterns that contradict the model's own lengths, or are written for another dialect. */
const WRONG_PATTERNS = new Set(["ServiceId"]);
const models = new Map<string, Model | undefined>();

/** What a request, and the answer to it, do against the provider's model. */
export function checkAws(service: string, operation: string, input: unknown, answer?: unknown): string[] {
  if (!models.has(service)) models.set(service, readContract<Model>(`aws/${service}.json`));
  const model = models.get(service);
  if (!model) return [];
  const found = model.operations[operation];
  const at = `${service} ${operation}`;
  if (!found) return [`${at}: no such operation`];
  const problems = found.input ? check(model, found.input.shape, input, "input") : [];
  if (answer !== undefined && found.output)
    problems.push(...check(model, found.output.shape, answer, "answer"));
  return problems.map((problem) => `${at}: ${problem}`);
}

/** A form of the query protocol as the object that it represents. */
export function fromForm(form: URLSearchParams): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const [key, value] of form) {
    if (key === "Action" || key === "Version") continue;
    const parts = key.split(".");
    let at: Record<string, unknown> = root;
    for (const part of parts.slice(0, -1)) {
      at[part] ??= {};
      at = at[part] as Record<string, unknown>;
    }
    at[parts.at(-1) ?? ""] = value;
  }
  return unwrap(root) as Record<string, unknown>;
}

function unwrap(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value);
  const [first] = entries;
  if (entries.length === 1 && first?.[0] === "member")
    return Object.entries(first[1] as object)
      .sort(([a], [b]) => Number(a) - Number(b))
      .map(([, item]) => unwrap(item));
  return Object.fromEntries(entries.map(([key, item]) => [key, unwrap(item)]));
}

function check(model: Model, name: string, value: unknown, at: string): string[] {
  const shape = model.shapes[name];
  if (!shape) return [`${at}: the model lacks ${name}`];
  if (value === null || value === undefined) return [];
  if (shape.type === "structure") return checkStructure(model, shape, value, at);
  if (shape.type === "list") {
    if (!Array.isArray(value)) return [`${at} is not a list`];
    return value.flatMap((item, index) => check(model, shape.member?.shape ?? "", item, `${at}[${index}]`));
  }
  if (shape.type === "map") {
    if (typeof value !== "object" || Array.isArray(value)) return [`${at} is not a map`];
    return Object.entries(value).flatMap(([key, item]) =>
      check(model, shape.value?.shape ?? "", item, `${at}.${key}`),
    );
  }
  return fits(model, name, value) ? [] : [`${at} does not fit ${name}: ${JSON.stringify(value)}`];
}

function checkStructure(model: Model, shape: Shape, value: unknown, at: string): string[] {
  if (typeof value !== "object" || Array.isArray(value) || value === null) return [`${at} is not an object`];
  const problems: string[] = [];
  for (const [key, item] of Object.entries(value)) {
    const member = shape.members?.[key];
    if (!member) problems.push(`${at} has an unknown field "${key}"`);
    else problems.push(...check(model, member.shape, item, `${at}.${key}`));
  }
  for (const key of shape.required ?? []) if (!(key in value)) problems.push(`${at} lacks "${key}"`);
  return problems;
}

function fits(model: Model, name: string, value: unknown): boolean {
  const shape = model.shapes[name] as Shape;
  const { type, min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = shape;
  if (type === "boolean") return typeof value === "boolean";
  if (type === "timestamp") return typeof value === "number" || typeof value === "string";
  if (["integer", "long", "double", "float"].includes(type)) {
    // A form knows no numbers.
    const number = model.metadata.protocol === "query" ? Number(value) : value;
    return typeof number === "number" && number >= min && number <= max;
  }
  if (typeof value !== "string") return false;
  if (shape.enum && !shape.enum.includes(value)) return false;
  if (value.length < min || value.length > max) return false;
  if (shape.pattern === undefined || WRONG_PATTERNS.has(name)) return true;
  for (const flags of ["su", "s"]) {
    try {
      return new RegExp(`^(?:${shape.pattern})$`, flags).test(value);
    } catch {
      // Written for another dialect of regular expressions: tried without Unicode, then not judged.
    }
  }
  return true;
}
