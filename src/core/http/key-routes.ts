import { defineRoute, type RouteDefinition, type RouteSchema } from "./route.ts";

type Schema = RouteSchema | undefined;

/** Makes the routes of a topic of the API, for programs that have the key. */
export function keyRoutes(tag: string) {
  return <P extends Schema = undefined, Q extends Schema = undefined, B extends Schema = undefined>(
    route: Omit<RouteDefinition<P, Q, B>, "auth" | "tag">,
  ): RouteDefinition => defineRoute({ ...route, auth: "key", tag } as RouteDefinition<P, Q, B>);
}
