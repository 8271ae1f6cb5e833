import type * as v from "valibot";
import { defineRoute, type RouteDefinition } from "../../core/http/route.ts";

type Schema = v.GenericSchema | undefined;

/** A route of the admin interface for people who are signed in, and for the key. */
export function adminRoute<
  P extends Schema = undefined,
  Q extends Schema = undefined,
  B extends Schema = undefined,
>(route: Omit<RouteDefinition<P, Q, B>, "auth" | "tag">): RouteDefinition {
  return defineRoute<P, Q, B>({ ...route, auth: "session", tag: "Admin" } as RouteDefinition<P, Q, B>);
}
