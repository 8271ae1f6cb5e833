import { defineRoute, type RouteDefinition, type RouteSchema } from "./route.ts";

type Schema = RouteSchema | undefined;
type Shared = Pick<RouteDefinition, "auth" | "tag"> &
  Partial<Pick<RouteDefinition, "needs" | "narrows" | "query" | "errors">>;
type Own<Route, Name extends PropertyKey> = Omit<Route, Name> & Partial<Pick<Route, Name & keyof Route>>;

/** Makes the routes of a topic of the API, which have something in common. What a route says itself counts. */
export function routesOf<S extends Shared>(shared: S) {
  return <P extends Schema = undefined, Q extends Schema = undefined, B extends Schema = undefined>(
    route: Own<RouteDefinition<P, Q, B>, keyof S>,
  ): RouteDefinition => defineRoute({ ...shared, ...route } as unknown as RouteDefinition<P, Q, B>);
}
