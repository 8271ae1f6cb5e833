import type * as v from "valibot";
import {
  defineRoute,
  type RouteDefinition,
  type RouteInput,
  type RouteValue,
} from "../../core/http/route.ts";
import type { AdminParts, SeenParts } from "./parts.ts";
import { seenBy, setViewer } from "./viewer.ts";

type Schema = v.GenericSchema | undefined;
type Declared<P extends Schema, Q extends Schema, B extends Schema> = Omit<
  RouteDefinition<P, Q, B>,
  "auth" | "tag" | "narrows"
>;

/**
 * A route of the admin interface for people who are signed in and see everything, and for the key; with `narrows`, also for
 * those who see all jobs of some agents.
 */
export function adminRoute<
  P extends Schema = undefined,
  Q extends Schema = undefined,
  B extends Schema = undefined,
>({
  narrows = false,
  ...route
}: Declared<P, Q, B> & { readonly narrows?: "agents" | false | undefined }): RouteDefinition {
  return toRoute<P, Q, B>(route as Declared<P, Q, B>, narrows);
}

/** A route also for people who see a part: its handler gets the parts as the caller sees them, and must use no others. */
export function seenRoute<
  P extends Schema = undefined,
  Q extends Schema = undefined,
  B extends Schema = undefined,
>(
  parts: AdminParts,
  route: Omit<Declared<P, Q, B>, "handler"> & {
    handler(input: RouteInput<RouteValue<P>, RouteValue<Q>, RouteValue<B>>, seen: SeenParts): unknown;
  },
): RouteDefinition {
  const { handler, ...about } = route;
  const narrowed = { ...about, handler: (input) => handler(input, seenBy(parts, input.caller)) } as Declared<
    P,
    Q,
    B
  >;
  return toRoute<P, Q, B>(narrowed, true);
}

function toRoute<P extends Schema, Q extends Schema, B extends Schema>(
  { handler, ...route }: Declared<P, Q, B>,
  narrows: boolean | "agents",
): RouteDefinition {
  return defineRoute<P, Q, B>({
    ...route,
    ...{ auth: "session", tag: "Admin", narrows },
    handler: (input) => {
      setViewer(input.event, input.caller);
      return handler(input);
    },
  } as RouteDefinition<P, Q, B>);
}
