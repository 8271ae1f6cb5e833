import type { H3, H3Event } from "h3";
import type { AnyRoute } from "./handler.ts";
import { createHandler, type HandlerParts } from "./handler.ts";
import { createMatcher, parameterNames, toH3Path, toShape } from "./path-pattern.ts";
import type { HttpEvent, RouteDefinition, Router } from "./route.ts";

/** Adds route declarations to an h3 app and keeps a list of them: for 405 responses and for the document. */
export class AppRouter implements Router {
  readonly #app: H3;
  readonly #parts: HandlerParts;
  readonly #routes: RouteDefinition[] = [];
  readonly #byShape = new Map<
    string,
    { methods: string[]; covers: (pathname: string) => boolean; isForPages: boolean }
  >();

  constructor(app: H3, parts: HandlerParts) {
    this.#app = app;
    this.#parts = parts;
  }

  get routes(): readonly RouteDefinition[] {
    return this.#routes;
  }

  add(route: RouteDefinition): void {
    const shape = toShape(route.path);
    const known = this.#byShape.get(shape) ?? {
      methods: [],
      covers: createMatcher(route.path),
      isForPages: false,
    };
    if (known.methods.includes(route.method)) {
      throw new Error(`Route ${route.method} ${route.path} already exists`);
    }
    assertParameters(route);
    assertToken(route);
    this.#app.on(route.method, toH3Path(route.path), createHandler(route as AnyRoute, this.#parts));
    known.methods.push(route.method);
    known.isForPages ||= route.token !== undefined;
    this.#byShape.set(shape, known);
    this.#routes.push(route);
  }

  /** Whether a route at the path of a request accepts tokens: pages may use it. */
  isForPages(event: HttpEvent): boolean {
    for (const known of this.#byShape.values()) {
      if (known.isForPages && known.covers(event.url.pathname)) return true;
    }
    return false;
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

/** Another route's caller is not asked for a token, and a job that the path does not name cannot be compared. */
function assertToken({ method, path, auth, token }: RouteDefinition): void {
  if (!token || (auth === "key" && parameterNames(path).includes(token.job))) return;
  throw new Error(
    `Route ${method} ${path} accepts tokens: it needs the auth "key" and the parameter "${token.job}" in its path`,
  );
}

/** A parameter without a schema would reach the handler unchecked, and the document without a type. */
function assertParameters(route: RouteDefinition): void {
  const entries = (route.params as unknown as { entries?: Record<string, unknown> } | undefined)?.entries;
  for (const name of parameterNames(route.path)) {
    if (entries && Object.hasOwn(entries, name)) continue;
    throw new Error(`Route ${route.method} ${route.path} has no schema for "${name}": add it to params`);
  }
}
