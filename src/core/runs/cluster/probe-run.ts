import { randomUUID } from "node:crypto";
import { FencedError, type Store, type Transaction, type TransactionOptions } from "../../store/store.ts";

/** Rows that are older were left by a process that died: milliseconds. */
const LEFT_BEHIND = 3_600_000;

/**
 * Runs a job that only tests the store, as an instance runs its own: it is inserted, claimed by a higher run number,
 * written to as its steps are, and ended. Its row is in a table of its own: no list, count, event or statistic has it.
 * Rejects if any of this fails, and if a write of its earlier run is not refused.
 */
export async function runProbe(store: Store, owner: string): Promise<void> {
  const id = `probe-${randomUUID()}`;
  const now = await store.now();
  const old = { created_at: { lt: now.getTime() - LEFT_BEHIND } };
  const left = await store.table("Probe").list({ where: old, sort: "id", limit: 100 });
  await store.transaction(async (tx) => {
    for (const row of left.items) await tx.remove("Probe", row.id);
    await tx.insert("Probe", { id, created_at: now.toISOString(), owner: null, run_count: 1, steps: 0 });
  });
  await store.transaction((tx) =>
    tx.change("Probe", id, (row) => ({ ...row, owner, run_count: row.run_count + 1 })),
  );
  const step = (tx: Transaction) => tx.change("Probe", id, (row) => ({ ...row, steps: row.steps + 1 }));
  const inRun = (epoch: number): TransactionOptions => ({ fence: { job: id, epoch, table: "Probe" } });
  const late = await store.transaction(step, inRun(1)).catch((error: unknown) => error);
  if (!(late instanceof FencedError))
    throw late instanceof Error
      ? late
      : new Error("The store has accepted a write of an earlier run of a job: instances cannot share it");
  await store.transaction(step, inRun(2));
  await store.transaction(async (tx) => {
    const { steps = 0 } = (await tx.get("Probe", id)) ?? {};
    if (steps !== 1) throw new Error(`The store has ${steps} steps of a job of which one was stored`);
    await tx.remove("Probe", id);
  }, inRun(2));
}
