import { readContract } from "./folder.ts";
import type { SeenRequest } from "./google.ts";

interface Document {
  readonly paths: Record<string, Record<string, Operation> & { parameters?: Ref[] }>;
  readonly [part: string]: unknown;
}
interface Operation {
  readonly parameters?: readonly Ref[];
  readonly requestBody?: Ref;
  readonly responses?: Record<string, Ref>;
}
type Ref = Schema & {
  readonly name?: string;
  readonly in?: string;
  readonly required?: unknown;
  readonly schema?: Schema;
  readonly content?: Record<string, { readonly schema?: Schema }>;
};
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: Schema;
  readonly properties?: Record<string, Schema>;
  readonly additionalProperties?: boolean | Schema;
  readonly allOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly nullable?: boolean;
}

const document = readContract<Document>("digitalocean/subset.openapi.json");

/**
 * Query parameters that the description gives for the older one-registry path only; the path by name takes them as well,
 * as DigitalOcean's own client sends them.
 */
const SHARED: Readonly<Record<string, string>> = {
  "/v2/registries/{registry_name}/docker-credentials": "/v2/registry/docker-credentials",
};

/** What a request, and the answer to it, do against the provider's description. */
export function checkDigitalOcean(
  request: SeenRequest,
  answer?: { status: number; body: unknown },
): string[] {
  if (document === undefined) return [];
  const at = `${request.method} ${request.path}`;
  const path = Object.keys(document.paths)
    .sort((a, b) => a.split("{").length - b.split("{").length)
    .find(
      (template) =>
        toPattern(template).test(request.path) && document.paths[template]?.[request.method.toLowerCase()],
    );
  const operation = path && document.paths[path]?.[request.method.toLowerCase()];
  if (!path || !operation) return [`${at}: no such operation`];
  const problems = [
    ...checkQuery(path, operation, request.query),
    ...checkRequestBody(operation, request.body),
  ];
  if (answer) problems.push(...checkAnswer(operation, answer));
  return problems.map((problem) => `${at}: ${problem}`);
}

function toPattern(template: string): RegExp {
  return new RegExp(`^${template.replace(/\{[^}]+\}/g, "[^/]+")}$`);
}

function checkQuery(path: string, operation: Operation, query: URLSearchParams): string[] {
  const shared = SHARED[path];
  const twin = shared === undefined ? [] : (document?.paths[shared]?.get?.parameters ?? []);
  const parameters = [
    ...(operation.parameters ?? []),
    ...(document?.paths[path]?.parameters ?? []),
    ...twin,
  ].map(resolve);
  const problems: string[] = [];
  for (const [key, value] of query) {
    const parameter = parameters.find(({ name, in: where }) => name === key && where === "query");
    if (!parameter) problems.push(`unknown query parameter "${key}"`);
    else
      problems.push(
        ...check(parameter.schema ?? {}, fromText(parameter.schema, value), `query.${key}`, true),
      );
  }
  for (const { name, in: where, required } of parameters)
    if (where === "query" && required === true && !query.has(name ?? ""))
      problems.push(`query parameter "${name}" is required`);
  return problems;
}

function fromText(schema: Schema | undefined, value: string): unknown {
  const { type } = resolve(schema ?? {});
  if (type === "integer" || type === "number") return Number(value);
  return type === "boolean" ? value === "true" : value;
}

function checkRequestBody(operation: Operation, body: unknown): string[] {
  const schema =
    operation.requestBody && resolve(operation.requestBody).content?.["application/json"]?.schema;
  if (!schema) return body === undefined ? [] : ["takes no body"];
  return body === undefined ? [] : check(schema, body, "body", true);
}

function checkAnswer(operation: Operation, { status, body }: { status: number; body: unknown }): string[] {
  const response = operation.responses?.[String(status)];
  if (!response) return [`status ${status} is not one of its answers`];
  const schema = resolve(response).content?.["application/json"]?.schema;
  return schema && body !== undefined ? check(schema, body, "answer", false) : [];
}

function check(given: Schema, value: unknown, at: string, strict: boolean): string[] {
  const schema = resolve(given);
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) {
    const results = choices.map((choice) => check(choice, value, at, strict));
    return results.find((problems) => problems.length === 0) ?? results[0] ?? [];
  }
  if (value === null) return [];
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  const properties = propertiesOf(schema);
  if (properties || types.includes("object")) return checkObject(schema, properties ?? {}, value, at, strict);
  if (types.includes("array")) {
    if (!Array.isArray(value)) return [`${at} is not a list`];
    return value.flatMap((item, index) => check(schema.items ?? {}, item, `${at}[${index}]`, strict));
  }
  return fits(schema, value)
    ? []
    : [
        `${at} does not fit ${types.join()}${schema.enum ? ` ${schema.enum.join("|")}` : ""}: ${JSON.stringify(value)}`,
      ];
}

function checkObject(
  schema: Schema,
  properties: Record<string, Schema>,
  value: unknown,
  at: string,
  strict: boolean,
): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [`${at} is not an object`];
  const problems: string[] = [];
  const open = schema.additionalProperties ?? Object.keys(properties).length === 0;
  for (const [key, item] of Object.entries(value)) {
    const property = properties[key];
    if (property) problems.push(...check(property, item, `${at}.${key}`, strict));
    else if (!open) problems.push(`${at} has an unknown field "${key}"`);
  }
  if (strict)
    for (const key of requiredOf(schema)) if (!(key in value)) problems.push(`${at} lacks "${key}"`);
  return problems;
}

function fits(schema: Schema, value: unknown): boolean {
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  if (schema.enum && !schema.enum.includes(value)) return false;
  if (types.includes("boolean")) return typeof value === "boolean";
  if (types.includes("integer")) return Number.isInteger(value) && inRange(schema, Number(value));
  if (types.includes("number")) return typeof value === "number" && inRange(schema, value);
  if (!types.includes("string")) return true;
  if (typeof value !== "string") return false;
  if (schema.pattern && !new RegExp(schema.pattern).test(value)) return false;
  return (
    value.length >= (schema.minLength ?? 0) && value.length <= (schema.maxLength ?? Number.POSITIVE_INFINITY)
  );
}

function inRange(
  { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY }: Schema,
  value: number,
): boolean {
  return value >= minimum && value <= maximum;
}

function propertiesOf(given: Schema): Record<string, Schema> | undefined {
  const schema = resolve(given);
  if (!schema.allOf) return schema.properties;
  const parts = [...schema.allOf.map(propertiesOf), schema.properties].filter((part) => part !== undefined);
  if (parts.length === 0) return undefined;
  const all: Record<string, Schema> = {};
  for (const [key, property] of parts.flatMap((part) => Object.entries(part))) {
    // A property that several parts describe has the fields of each.
    const before = all[key];
    all[key] = before === undefined ? property : { allOf: [before, property] };
  }
  return all;
}

function requiredOf(given: Schema): string[] {
  const schema = resolve(given) as Ref;
  const own = Array.isArray(schema.required) ? (schema.required as string[]) : [];
  return [...own, ...(schema.allOf ?? []).flatMap(requiredOf)];
}

function resolve<T extends Schema>(schema: T): T {
  let current: Schema = schema;
  while (current.$ref) {
    let part: unknown = document;
    for (const key of current.$ref.slice(2).split("/"))
      part = (part as Record<string, unknown>)[key.replaceAll("~1", "/").replaceAll("~0", "~")];
    current = part as Schema;
  }
  return current as T;
}
