import { describe, expect, it } from "vitest";
import { EntityStatusSchema } from "../../src/core/models/entity-status.ts";
import { LIFECYCLE, type LifecycleEvent, nextStatus } from "../../src/core/models/lifecycle.ts";

const edges = [
  ["start_work", "stopped", "in_progress"],
  ["successfully_done", "in_progress", "completed"],
  ["awaiting_on_input", "in_progress", "awaiting"],
  ["cancel_requested", "in_progress", "cancelling"],
  ["error_encountered", "in_progress", "failed"],
  ["timeout_or_error", "awaiting", "failed"],
  ["input_received", "awaiting", "in_progress"],
  ["cancel_while_waiting", "awaiting", "cancelling"],
  ["cancel_confirmed", "cancelling", "cancelled"],
] as const;

describe("lifecycle", () => {
  it.each(edges)("%s leads from %s to %s and from no other state", (event, from, to) => {
    const results = EntityStatusSchema.options.map((status) => [status, nextStatus(status, event)]);

    expect(results.filter(([, next]) => next !== undefined)).toEqual([[from, to]]);
  });

  it("has no other events", () => {
    const events = Object.keys(LIFECYCLE) as LifecycleEvent[];

    expect(events.sort()).toEqual(edges.map(([event]) => event).sort());
  });
});
