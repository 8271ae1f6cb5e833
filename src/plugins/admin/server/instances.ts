import { shortInstance } from "../../../core/models/own-rows.ts";
import type { AdminParts } from "../parts.ts";
import { formatDuration } from "../views/format.ts";

/** The instances that share the store, and those that died within the last hour; a closed one has removed its row. */
export async function readInstances({ store, runner }: Pick<AdminParts, "store" | "runner">) {
  if (!store.isShared) return [];
  const now = (await store.now()).getTime();
  const { items } = await store.table("Instance").list({ limit: Number.POSITIVE_INFINITY });
  return items
    .map(({ id, host, agents, running, places, started_at, seen_at }) => ({
      ...{ id, current: id === runner().instance, host, agents: [...agents] },
      ...{ running, places, started_at, seen_at },
      seconds_since: Math.max(0, Math.round((now - Date.parse(seen_at)) / 1000)),
    }))
    .sort((a, b) => (a.started_at < b.started_at ? -1 : 1));
}

type Shown = Awaited<ReturnType<typeof readInstances>>[number];

/** An instance as a line of the Server page. */
export function instanceFact(one: Shown): { readonly name: string; readonly value: string } {
  const { id, current, host, agents, running, places, seconds_since } = one;
  const value = [
    `${running} of ${places} jobs`,
    `seen ${seconds_since === 0 ? "now" : `${formatDuration(seconds_since * 1000)} ago`}`,
    agents.join(", "),
  ].join("; ");
  return { name: `${host} ${shortInstance(id)}${current ? " (this one)" : ""}`, value };
}
