import * as v from "valibot";
import { type ControlSystem, OutboxMessageSchema } from "../../core/delivery/control-system.ts";
import { defineRoute, type RouteDefinition } from "../../core/http/route.ts";
import { optional } from "../../core/models/scalars.ts";

const tag = "Events";

const StatusSchema = v.object({
  mode: v.picklist(["connected", "local"]),
  api_url: optional(v.string()),
  workspace_id: optional(v.string()),
  registered_at: optional(v.string()),
  targets: v.array(
    v.object({
      name: v.string(),
      state: v.picklist(["ok", "failing", "paused"]),
      delivered: v.number(),
      failures_in_a_row: v.number(),
      last_error: optional(v.string()),
      retry_at: optional(v.string()),
    }),
  ),
  counts: v.object({ waiting: v.number(), dead: v.number(), delivered: v.number(), dropped: v.number() }),
});

/** Ids of dead letters, or all of them. */
const WhichSchema = v.object({
  ids: v.union([v.literal("all"), v.pipe(v.array(v.string()), v.minLength(1), v.maxLength(1000))]),
});

const whole = (least: number, most: number) =>
  v.pipe(
    v.string(),
    v.regex(/^\d+$/, "must be a whole number"),
    v.toNumber(),
    v.minValue(least),
    v.maxValue(most),
  );

/** Operator access to the outbox. */
export function eventRoutes(control: ControlSystem): RouteDefinition[] {
  return [
    defineRoute({
      method: "GET",
      path: "/admin/api/events",
      auth: "session",
      needs: "view",
      summary: "Waiting messages and dead letters, newest first",
      description:
        "Messages to the control system and other receivers that were not delivered yet, or could not be.",
      tag,
      query: v.object({
        state: v.optional(v.picklist(["waiting", "dead"])),
        limit: v.optional(whole(1, 100), "50"),
        skip: v.optional(whole(0, 1_000_000_000), "0"),
      }),
      responses: {
        200: {
          description: "One page",
          schema: v.object({
            items: v.array(OutboxMessageSchema),
            total: v.number(),
            limit: v.number(),
            skip: v.number(),
            has_next: v.boolean(),
            has_prev: v.boolean(),
          }),
        },
      },
      handler: async ({ query }) => {
        const { limit, skip } = query;
        const page = await control.list(query);
        return { ...page, limit, skip, has_next: skip + limit < page.total, has_prev: skip > 0 };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/admin/api/events/status",
      auth: "session",
      needs: "view",
      summary: "State of deliveries to the control system and other receivers",
      description: "For each receiver, how many messages wait, and when and why the last delivery failed.",
      tag,
      responses: { 200: { description: "The link's state", schema: StatusSchema } },
      handler: async () => ({ ...control.status(), counts: await control.counts() }),
    }),
    defineRoute({
      method: "POST",
      path: "/admin/api/events/retry",
      auth: "session",
      needs: "operate",
      summary: "Send dead letters again",
      description: "They keep their idempotency keys and their places in the order of their job.",
      tag,
      body: WhichSchema,
      responses: { 200: { description: "How many", schema: v.object({ retried: v.number() }) } },
      handler: async ({ body, caller }) => ({ retried: await control.retry(body.ids, caller) }),
    }),
    defineRoute({
      method: "POST",
      path: "/admin/api/events/drop",
      auth: "session",
      needs: "operate",
      summary: "Remove dead letters permanently",
      description: "The messages that could not be delivered are removed, and never sent.",
      tag,
      body: WhichSchema,
      responses: { 200: { description: "How many", schema: v.object({ dropped: v.number() }) } },
      handler: async ({ body, caller }) => ({ dropped: await control.drop(body.ids, caller) }),
    }),
  ];
}
