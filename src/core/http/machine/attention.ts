import { AttentionSchema } from "../../models/attention.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";

/** What needs a person. */
export function attentionRoute({ prefix, attention, seen }: MachineParts): RouteDefinition {
  return defineRoute({
    method: "GET",
    path: `${prefix}/attention`,
    auth: "key",
    needs: "view",
    narrows: true,
    summary: "What needs a person",
    description:
      "The most urgent first; an empty list where nothing does. `stuck`: jobs whose step takes ten times longer than it ever has, and more than a minute. `failures`: reasons for which jobs failed in the last 24 hours, and did not before, or a third as often in the week before. Who sees a part gets what is about that.",
    tag: "Health",
    responses: { 200: { description: "What needs a person", schema: AttentionSchema } },
    handler: async ({ caller }) => ({
      items: caller.sight ? await attention.seenBy(caller.sight, seen(caller)) : await attention.read(),
    }),
  });
}
