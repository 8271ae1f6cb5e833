import type { ErrorForm } from "./error-form.ts";
import { defineRoute, type RouteDefinition, type RouteSchema } from "./route.ts";

type Schema = RouteSchema | undefined;

/** Makes the routes of a topic of the API, for programs that have the key, and that may read errors in a form of their own. */
export function keyRoutes(tag: string, errors?: ErrorForm) {
  return <P extends Schema = undefined, Q extends Schema = undefined, B extends Schema = undefined>(
    route: Omit<RouteDefinition<P, Q, B>, "auth" | "tag">,
  ): RouteDefinition =>
    defineRoute({ ...(errors && { errors }), ...route, auth: "key", tag } as RouteDefinition<P, Q, B>);
}
