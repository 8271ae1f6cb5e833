import { readContract } from "./folder.ts";

/** A request as it came in, below the API's own base address. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: unknown;
}

interface Discovery {
  readonly servicePath?: string;
  readonly parameters?: Record<string, Parameter>;
  readonly resources?: Record<string, Resource>;
  readonly schemas: Record<string, Schema>;
}
interface Resource {
  readonly methods?: Record<string, Method>;
  readonly resources?: Record<string, Resource>;
}
interface Method {
  readonly id: string;
  readonly path: string;
  readonly flatPath?: string;
  readonly httpMethod: string;
  readonly parameters?: Record<string, Parameter>;
  readonly request?: { readonly $ref: string };
  readonly response?: { readonly $ref: string };
  readonly supportsMediaUpload?: boolean;
  readonly mediaUpload?: { readonly protocols?: { readonly simple?: { readonly path: string } } };
}
interface Parameter {
  readonly type?: string;
  readonly format?: string;
  readonly location?: string;
  readonly required?: boolean;
  readonly repeated?: boolean;
  readonly enum?: readonly string[];
  readonly pattern?: string;
}
interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly items?: Schema;
  readonly properties?: Record<string, Schema>;
  readonly additionalProperties?: Schema;
  readonly description?: string;
  readonly annotations?: { readonly required?: readonly string[] };
}
interface Entry {
  readonly pattern: RegExp;
  readonly method: Method;
  readonly media: boolean;
  readonly doc: Discovery;
}

const VERSIONS: Readonly<Record<string, readonly string[]>> = {
  run: ["v1", "v2"],
  artifactregistry: ["v1"],
  secretmanager: ["v1"],
  cloudbuild: ["v1"],
  serviceusage: ["v1"],
  cloudresourcemanager: ["v1", "v3"],
  storage: ["v1"],
  logging: ["v2"],
  iam: ["v1"],
};
const cache = new Map<string, Entry[]>();

/** What a request, and the answer to it, do against the provider's model. */
export function checkGoogle(api: string, request: SeenRequest, answer?: unknown): string[] {
  const entries = entriesOf(api);
  if (entries === undefined) return [];
  const found = entries.find(
    ({ pattern, method }) => method.httpMethod === request.method && pattern.test(request.path),
  );
  const at = `${api}: ${request.method} ${request.path}`;
  if (!found) return [`${at}: no such method`];
  const problems = [...checkQuery(found, request.query), ...checkBody(found, request.body)];
  if (answer !== undefined && found.method.response)
    problems.push(
      ...checkValue(found.doc, { $ref: found.method.response.$ref }, answer, "answer", undefined),
    );
  return problems.map((problem) => `${at}: ${problem}`);
}

function entriesOf(api: string): Entry[] | undefined {
  const kept = cache.get(api);
  if (kept) return kept;
  const docs = (VERSIONS[api] ?? []).flatMap(
    (version) => readContract<Discovery>(`google/${api}.${version}.json`) ?? [],
  );
  if (docs.length === 0) return undefined;
  const entries = docs.flatMap((doc) => collect(doc, doc.resources ?? {}));
  cache.set(api, entries);
  return entries;
}

function collect(doc: Discovery, resources: Record<string, Resource>): Entry[] {
  return Object.values(resources).flatMap((resource) => [
    ...Object.values(resource.methods ?? {}).flatMap((method) => {
      const plain = toPattern(`/${doc.servicePath ?? ""}${method.flatPath ?? method.path}`);
      const upload = method.mediaUpload?.protocols?.simple?.path;
      return [
        { doc, method, media: false, pattern: plain },
        ...(upload === undefined ? [] : [{ doc, method, media: true, pattern: toPattern(upload) }]),
      ];
    }),
    ...collect(doc, resource.resources ?? {}),
  ]);
}

function toPattern(template: string): RegExp {
  const escaped = template
    .replace(/[.*?^$()|[\]\\]/g, "\\$&")
    .replace(/\{\+[^}]+\}/g, ".+")
    .replace(/\{[^}]+\}/g, "[^/:]+");
  // The last part of a path may hold escaped slashes, and names such as e-mails.
  return new RegExp(`^${escaped.replaceAll("+", "+")}$`);
}

function checkQuery({ doc, method, media }: Entry, query: URLSearchParams): string[] {
  const problems: string[] = [];
  for (const [key, value] of query) {
    const parameter = method.parameters?.[key] ?? doc.parameters?.[key];
    if (media && key === "uploadType") continue;
    if (!parameter) problems.push(`unknown query parameter "${key}"`);
    else if (parameter.format === "google-fieldmask") problems.push(...checkMask(doc, method, value));
    else if (!fitsText(parameter, value))
      problems.push(`query parameter ${key}=${value} is no ${parameter.type}`);
  }
  for (const [key, parameter] of Object.entries(method.parameters ?? {}))
    if (parameter.required && parameter.location === "query" && !query.has(key))
      problems.push(`query parameter "${key}" is required`);
  return problems;
}

function checkMask(doc: Discovery, method: Method, mask: string): string[] {
  return mask.split(",").flatMap((path) => {
    let schema: Schema | undefined = method.request && doc.schemas[method.request.$ref];
    for (const part of path.split(".")) {
      const camel = part.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
      const next: Schema | undefined = schema?.properties?.[camel];
      if (!next)
        return schema?.additionalProperties ? [] : [`update mask names "${path}", which is not there`];
      schema = next.$ref ? doc.schemas[next.$ref] : next;
    }
    return [];
  });
}

function checkBody({ doc, method, media }: Entry, body: unknown): string[] {
  if (media) return [];
  if (!method.request) return body === undefined ? [] : ["takes no body"];
  if (body === undefined) return [];
  return checkValue(doc, { $ref: method.request.$ref }, body, "body", method.id);
}

function checkValue(
  doc: Discovery,
  given: Schema,
  value: unknown,
  at: string,
  methodId: string | undefined,
): string[] {
  const schema = given.$ref ? doc.schemas[given.$ref] : given;
  if (!schema) return [`${at}: the model lacks ${given.$ref}`];
  if (schema.type === "any" || value === null) return [];
  if (schema.type === "array") {
    if (!Array.isArray(value)) return [`${at} is not a list`];
    return value.flatMap((item, index) =>
      checkValue(doc, schema.items ?? {}, item, `${at}[${index}]`, methodId),
    );
  }
  if (schema.type === "object") return checkObject(doc, schema, value, at, methodId);
  return fits(schema, value)
    ? []
    : [
        `${at} is no ${schema.format ?? schema.type}${schema.enum ? " of its list" : ""}: ${JSON.stringify(value)}`,
      ];
}

function checkObject(
  doc: Discovery,
  schema: Schema,
  value: unknown,
  at: string,
  methodId: string | undefined,
): string[] {
  if (typeof value !== "object" || Array.isArray(value) || value === null) return [`${at} is not an object`];
  const problems: string[] = [];
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined) continue;
    const property = schema.properties?.[key] ?? schema.additionalProperties;
    if (!property) problems.push(`${at} has an unknown field "${key}"`);
    else problems.push(...checkValue(doc, property, item, `${at}.${key}`, methodId));
  }
  if (methodId === undefined) return problems;
  for (const [key, property] of Object.entries(schema.properties ?? {})) {
    const required =
      property.annotations?.required?.includes(methodId) || property.description?.startsWith("Required. ");
    // The name of a resource is part of the path.
    if (required && !(key in value) && key !== "name") problems.push(`${at} lacks "${key}"`);
  }
  return problems;
}

function fits(schema: Schema, value: unknown): boolean {
  if (schema.type === "boolean") return typeof value === "boolean";
  if (schema.type === "integer") return Number.isInteger(value);
  if (schema.type === "number") return typeof value === "number";
  if (typeof value !== "string") return false;
  if (schema.format === "int64" || schema.format === "uint64") return /^-?\d+$/.test(value);
  return !schema.enum || schema.enum.includes(value);
}

function fitsText(parameter: Parameter, value: string): boolean {
  if (parameter.type === "boolean") return value === "true" || value === "false";
  if (parameter.type === "integer") return /^-?\d+$/.test(value);
  return !parameter.enum || parameter.enum.includes(value);
}
