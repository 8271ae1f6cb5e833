import * as v from "valibot";
import type { AddedRoute } from "../../core/http/route.ts";
import { rolesWith } from "../../core/models/access.ts";
import { ErrorResponseSchema } from "../../core/models/error-response.ts";
import { Conversion, type JsonSchema } from "./json-schema.ts";

export interface DocumentInfo {
  readonly title: string;
  readonly version: string;
  readonly description: string;
  readonly license: { readonly name: string; readonly identifier?: string; readonly url?: string };
  readonly contact?: { readonly name?: string; readonly url?: string; readonly email?: string };
}

/** The OpenAPI 3.1 document of all routes that are not hidden. */
export function createDocument(routes: readonly AddedRoute[], info: DocumentInfo): JsonSchema {
  const shown = routes.filter((route) => !route.hidden);
  const paths: Record<string, JsonSchema> = {};
  const schemas = new Conversion({
    input: shown
      .flatMap(({ params, query, body }) => [params, query, body])
      .filter((one) => one !== undefined),
    output: [ErrorResponseSchema, ...shown.flatMap(responseSchemas)],
  });
  for (const route of shown) {
    paths[route.path] ??= {};
    paths[route.path]![route.method.toLowerCase()] = toOperation(route, schemas);
  }
  return {
    openapi: "3.1.1",
    info,
    servers: [{ url: "/" }],
    tags: [...new Set(shown.map((route) => route.tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: schemas.componentsOf([paths, schemas.of(ErrorResponseSchema, "output")]),
      securitySchemes: {
        apiKey: { type: "apiKey", in: "header", name: "X-API-Key" },
        bearer: { type: "http", scheme: "bearer", description: "The API key, or a named key" },
        session: {
          type: "apiKey",
          in: "cookie",
          name: "session",
          description: "Signed in to the admin pages",
        },
        jobToken: {
          type: "http",
          scheme: "bearer",
          description: "A token of one job, from `POST /jobs/{id}/tokens`",
        },
      },
    },
  };
}

function responseSchemas({ errors, responses }: AddedRoute): v.GenericSchema[] {
  const all = [errors?.schema, ...Object.values(responses).map(({ schema }) => schema)];
  return all.filter((schema) => schema !== undefined);
}

function toOperation(route: AddedRoute, schemas: Conversion): JsonSchema {
  const { summary, description, tag, params, query, body } = route;
  const parameters = [
    ...(params ? toParameters(schemas.of(params, "input"), "path") : []),
    ...(query ? toParameters(schemas.of(query, "input"), "query") : []),
  ];
  const responses = Object.fromEntries(
    Object.entries(route.responses).map(([status, { description, schema, contentType }]) => [
      status,
      { description, ...toContent(schema && schemas.of(schema, "output"), contentType) },
    ]),
  );
  return {
    operationId: toOperationId(route),
    summary,
    ...(description !== undefined && { description }),
    tags: [tag],
    ...(route.auth !== "none" && { "x-needs": route.needs, "x-roles": rolesWith(route.needs) }),
    // An empty list says that a request needs nothing; none would say nothing.
    security:
      route.auth === "none"
        ? []
        : [
            { apiKey: [] },
            { bearer: [] },
            ...(route.auth === "session" ? [{ session: [] }] : []),
            ...(route.token ? [{ jobToken: [] }] : []),
          ],
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: {
        required: !v.is(body, undefined),
        content: { "application/json": { schema: schemas.of(body, "input") } },
      },
    }),
    responses: { ...failures(route, schemas), ...responses },
  };
}

function toContent(schema: JsonSchema | undefined, contentType = "application/json"): JsonSchema {
  if (schema) return { content: { [contentType]: { schema } } };
  return contentType === "application/json" ? {} : { content: { [contentType]: {} } };
}

function toParameters(schema: JsonSchema, place: "path" | "query"): JsonSchema[] {
  const object = schema as { properties?: Record<string, JsonSchema>; required?: string[] };
  return Object.entries(object.properties ?? {}).map(([name, { description, ...property }]) => ({
    name,
    in: place,
    required: place === "path" || (object.required ?? []).includes(name),
    ...(description !== undefined && { description }),
    schema: property,
  }));
}

/** `GET /jobs/{id}/cases` → `getJobsIdCases`. */
function toOperationId({ method, path }: AddedRoute): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  return method.toLowerCase() + words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join("");
}

/** Error responses of the router itself, by what a route accepts. */
function failures({ auth, needs, params, query, body, errors }: AddedRoute, schemas: Conversion): JsonSchema {
  const schema = schemas.of(errors?.schema ?? ErrorResponseSchema, "output");
  const content = { "application/json": { schema } };
  const all: [boolean, number, string][] = [
    [
      body !== undefined || (errors !== undefined && Boolean(params ?? query)),
      400,
      errors ? "The request is not understood" : "The body is not JSON",
    ],
    [auth !== "none", 401, "The key is missing or wrong"],
    [
      auth !== "none" && needs !== "nothing",
      403,
      `The caller does not have the right "${needs}", or may not see this`,
    ],
    [params !== undefined, 404, "Not found"],
    [body !== undefined, 413, "The body is over the limit"],
    [body !== undefined, 415, "The body's content type is not JSON"],
    [
      !errors && Boolean(params ?? query ?? body),
      422,
      "A value does not match its schema; `detail` names each problem",
    ],
    [auth !== "none", 429, "Too many wrong keys, or a full queue; `Retry-After` says how long to wait"],
  ];
  const applying = all.filter(([applies]) => applies);
  return {
    ...Object.fromEntries(applying.map(([, status, description]) => [status, { description, content }])),
    default: { description: "Any other failure", content },
  };
}
