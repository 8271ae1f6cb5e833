// @long
import { defineAgent } from "agent-control-service";
import { STORE } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { sweep } from "../../src/core/retention/sweep.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { postgres } from "../../src/postgres.ts";
import { Cluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const JOBS = 100;
/** Most statements for each job and its case. */
const MOST = 0.5;

const idle = defineAgent({ name: "Idle", version: "1.0.0", methods: { job_start: { run: () => null } } });

requirement("postgres").describe("expired jobs in a database", () => {
  it("are removed many at a time: what is asked about one is asked about others in the same statement", async () => {
    const cluster = new Cluster();
    await cluster.start();
    try {
      await cluster.query("create extension pg_stat_statements");
      const database = postgres({ url: cluster.url, schema: "s" });
      await using server = await testServer({ agents: [idle], store: database });
      let store = server.service.get(STORE);
      const at = "2020-01-01T00:00:00.000Z";
      const ended = { status: "completed" as const, created_at: at, updated_at: at, finished_at: at };
      for (let n = 0; n < JOBS; n++) {
        await store.table("Job").insert(makeJob(`job-${n}`, { ...ended, agent_name: "idle", case_count: 1 }));
        await store.table("Case").insert(makeCase(`case-${n}`, `job-${n}`));
      }
      // What a process has made itself, it knows without asking.
      await server.crash();
      store = server.service.get(STORE);
      await cluster.query("select pg_stat_statements_reset()");

      const removed = await sweep(
        {
          ...{ store, ledger: server.service.get(LEDGER), isOver: () => false, note: async () => {} },
          policyOf: () => ({ completed: 1000, failed: null, cancelled: null }),
        },
        new Date(),
      );
      const made = await cluster.query<{ calls: number; query: string }>(
        "select calls::int, query from pg_stat_statements where toplevel order by calls desc",
      );

      expect(removed.reduce((sum, { jobs }) => sum + jobs, 0)).toBe(JOBS);
      expect((await store.table("Case").list({ limit: 0 })).total).toBe(0);
      const calls = made.reduce((sum, one) => sum + one.calls, 0);
      expect(calls / JOBS, JSON.stringify(made.slice(0, 8), null, 1)).toBeLessThanOrEqual(MOST);
    } finally {
      await cluster.close();
    }
  });
});
