import type { H3, H3Event } from "h3";
import { RIGHTS } from "../models/access.ts";
import type { ErrorForm } from "./error-form.ts";
import { namesOf, toAnswerSchema, toRequestSchema } from "./foreign-schema.ts";
import { type AnyRoute, createHandler, type HandlerParts } from "./handler.ts";
import { createMatcher, parameterNames, toH3Path, toShape } from "./path-pattern.ts";
import type { AddedRoute, HttpEvent, RouteDefinition, Router } from "./route.ts";

/** Adds route declarations to an h3 app and keeps a list of them: for 405 responses and for the document. */
export class AppRouter implements Router {
  readonly #app: H3;
  readonly #parts: HandlerParts;
  readonly #routes: AddedRoute[] = [];
  readonly #byShape = new Map<
    string,
    {
      methods: string[];
      covers: (pathname: string) => boolean;
      isForPages: boolean;
      errors: ErrorForm | undefined;
    }
  >();

  constructor(app: H3, parts: HandlerParts) {
    this.#app = app;
    this.#parts = parts;
  }

  get routes(): readonly AddedRoute[] {
    return this.#routes;
  }

  add(declared: RouteDefinition): void {
    const route = toAdded(declared);
    const shape = toShape(route.path);
    const known = this.#byShape.get(shape) ?? {
      methods: [],
      covers: createMatcher(route.path),
      isForPages: false,
      errors: undefined,
    };
    if (known.methods.includes(route.method)) {
      throw new Error(`Route ${route.method} ${route.path} already exists`);
    }
    assertParameters(route);
    assertToken(route);
    assertAccessTokens(route);
    assertNeeds(route);
    this.#app.on(route.method, toH3Path(route.path), createHandler(route as AnyRoute, this.#parts));
    known.methods.push(route.method);
    known.isForPages ||= route.token !== undefined;
    known.errors ??= route.errors;
    this.#byShape.set(shape, known);
    this.#routes.push(route);
    const { resources } = this.#parts;
    if (route.accessTokens && resources) this.add(resources.metadataRoute(route));
  }

  /** Whether a route at the path of a request accepts tokens: pages may use it. */
  isForPages(event: HttpEvent): boolean {
    for (const known of this.#byShape.values()) {
      if (known.isForPages && known.covers(event.url.pathname)) return true;
    }
    return false;
  }

  /** How errors about the path of a request are written, where its routes say so. */
  errorsOf(event: HttpEvent): ErrorForm | undefined {
    const { pathname } = event.url;
    for (const { errors, covers } of this.#byShape.values()) if (errors && covers(pathname)) return errors;
    const below = this.#routes.find(({ path, errors }) => {
      const at = errors?.below === undefined ? -1 : path.indexOf(errors.below);
      return at >= 0 && pathname.startsWith(path.slice(0, at) + errors!.below);
    });
    return below?.errors;
  }

  /** Methods that routes accept at the path of an unmatched request. */
  allowed(event: H3Event): string[] {
    const methods = new Set<string>();
    for (const known of this.#byShape.values()) {
      if (!known.covers(event.url.pathname)) continue;
      for (const method of known.methods) methods.add(method);
      if (known.methods.includes("GET")) methods.add("HEAD");
    }
    return [...methods].sort();
  }
}

function toAdded(route: RouteDefinition): AddedRoute {
  const { params, query, body } = route;
  const what = `Route ${route.method} ${route.path}`;
  const responses = Object.entries(route.responses).map(([status, { schema, ...response }]) => [
    status,
    { ...response, ...(schema && { schema: toAnswerSchema(schema, `${what}, response ${status}`) }) },
  ]);
  return {
    ...(route as AddedRoute),
    ...(params && { params: toRequestSchema(params, `${what}, params`) }),
    ...(query && { query: toRequestSchema(query, `${what}, query`) }),
    ...(body && { body: toRequestSchema(body, `${what}, body`) }),
    responses: Object.fromEntries(responses),
  };
}

/** Another route's caller is not asked for a token, and a job that the path does not name cannot be compared. */
function assertToken({ method, path, auth, token }: RouteDefinition): void {
  if (!token || (auth === "key" && parameterNames(path).includes(token.job))) return;
  throw new Error(
    `Route ${method} ${path} accepts tokens: it needs the auth "key" and the parameter "${token.job}" in its path`,
  );
}

/** A token is for one address, and sessions have no use for one. */
function assertAccessTokens({ method, path, auth, accessTokens }: RouteDefinition): void {
  if (!accessTokens || (auth === "key" && parameterNames(path).length === 0)) return;
  throw new Error(
    `Route ${method} ${path} accepts access tokens: it needs the auth "key", and a path without parameters`,
  );
}

/** The type asks for it; a plugin in JavaScript is not checked by it. */
function assertNeeds({ method, path, auth, needs }: RouteDefinition): void {
  if (needs !== "nothing" && !RIGHTS.includes(needs)) {
    const given =
      needs === undefined ? "does not say what it needs" : `needs "${needs}", which is not a right`;
    throw new Error(`Route ${method} ${path} ${given}: set needs to ${RIGHTS.join(", ")} or nothing`);
  }
  if (auth !== "none" || needs === "nothing") return;
  throw new Error(
    `Route ${method} ${path} has the auth "none" and needs "${needs}": nobody is asked for a key, so it can need nothing only`,
  );
}

/** A parameter without a schema would reach the handler unchecked, and the document without a type. */
function assertParameters(route: AddedRoute): void {
  const names = route.params ? namesOf(route.params) : [];
  for (const name of parameterNames(route.path)) {
    if (names.includes(name)) continue;
    throw new Error(`Route ${route.method} ${route.path} has no schema for "${name}": add it to params`);
  }
}
