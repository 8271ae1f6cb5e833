import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import type { Got } from "./_send.ts";

type Json = Record<string, unknown>;

/** What `/openapi.json` declares, as a check of real answers. */
export class Declared {
  readonly #document: Json;
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });

  constructor(document: Json) {
    this.#document = document;
    this.#ajv.addSchema(closeObjects(document) as Json, "document");
  }

  /** What an answer says that is not declared, or does not say that is. */
  problems({ method, path }: { method: string; path: string }, got: Got): string[] {
    const operation = this.#operation(method, path);
    if (!operation) return ["is not in the document"];
    const { responses } = operation as { responses: Record<string, { content?: Json }> };
    const status = responses[got.status] ? String(got.status) : "default";
    if (got.status < 400 && status === "default") return [`${got.status} is not declared`];
    const content = responses[status]?.content;
    const type = got.headers["content-type"]?.split(";")[0] ?? "";
    if (!content) return got.text === "" ? [] : [`the content of ${got.status} is not declared`];
    if (!(type in content)) return [`${type} is not declared for ${got.status}`];
    if (!("schema" in (content[type] as Json)))
      return type === "application/json" ? [`${got.status} has no schema`] : [];
    const place = ["paths", path, method.toLowerCase(), "responses", status, "content", type, "schema"];
    const check = this.#ajv.getSchema(`document#/${place.map(toPointerPart).join("/")}`) as ValidateFunction;
    if (check(JSON.parse(got.text))) return [];
    return (check.errors ?? []).map(
      ({ instancePath, message, params }) =>
        `${instancePath || "the answer"} ${message} ${JSON.stringify(params)}`,
    );
  }

  /** Every documented operation, as method and path. */
  operations(): string[] {
    return Object.entries(this.#document.paths as Json).flatMap(([path, operations]) =>
      Object.keys(operations as Json).map((method) => `${method.toUpperCase()} ${path}`),
    );
  }

  #operation(method: string, path: string): Json | undefined {
    return (this.#document.paths as Record<string, Record<string, Json>>)[path]?.[method.toLowerCase()];
  }
}

/** One place of a JSON pointer in a URI fragment. */
function toPointerPart(place: string): string {
  return encodeURIComponent(place.replaceAll("~", "~0").replaceAll("/", "~1"));
}

/** Fields that are not declared are a mistake here, though clients are to ignore them. */
function closeObjects(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(closeObjects);
  if (typeof node !== "object" || node === null) return node;
  const closed = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, closeObjects(value)]));
  const isObject = closed.type === "object" && typeof closed.properties === "object";
  return isObject && !("additionalProperties" in closed)
    ? { ...closed, additionalProperties: false }
    : closed;
}
