import type * as v from "valibot";
import type { MaybePromise } from "../../core/base/maybe-promise.ts";
import { defineRoute, type RouteDefinition } from "../../core/http/route.ts";
import type { Need } from "../../core/models/access.ts";
import type { AdminParts } from "./parts.ts";
import { type Resource, respond } from "./respond.ts";

type Schema = v.GenericSchema | undefined;
type Input<P extends Schema, Q extends Schema> = Parameters<RouteDefinition<P, Q>["handler"]>[0];

/** The routes of a resource, and how it is found. */
export interface ResourceView<P extends Schema, Q extends Schema> {
  readonly page?: readonly [path: string, summary: string];
  readonly api?: readonly [path: string, summary: string, description?: string];
  readonly needs: Need;
  readonly narrows?: boolean;
  readonly params?: P;
  readonly query?: Q;
  /** Content of the response. */
  readonly answer: string;
  /** Schema of the JSON response; the document needs it if there is an API route. */
  readonly schema?: v.GenericSchema;
  /** Finds it; throws if there is none. */
  resource(input: Input<P, Q>): MaybePromise<Resource>;
}

/** The routes of a resource: its page, and the same in the API. */
export function resourceRoutes<P extends Schema = undefined, Q extends Schema = undefined>(
  parts: AdminParts,
  view: ResourceView<P, Q>,
): RouteDefinition[] {
  const { params, query } = view;
  const route = (kind: "page" | "api", [path, summary, description]: readonly [string, string, string?]) =>
    defineRoute<P, Q>({
      method: "GET",
      path,
      auth: "session",
      needs: view.needs,
      narrows: view.narrows ?? false,
      summary,
      description,
      tag: "Admin",
      hidden: kind === "page",
      params,
      query,
      responses: { 200: { description: view.answer, schema: view.schema } },
      handler: async (input) => respond(parts, input.event, kind, await view.resource(input)),
    });
  return [...(view.page ? [route("page", view.page)] : []), ...(view.api ? [route("api", view.api)] : [])];
}
