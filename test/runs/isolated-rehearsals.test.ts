// @long
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { AgentRegistry } from "../../src/core/agents/registry.ts";
import { type OpenJob, rehearseOpen } from "../../src/core/runs/check/check-job.ts";
import { AgentProcesses } from "../../src/core/runs/isolation/agent-processes.ts";
import { shareOf } from "../_share.ts";
import { PROCESS_TIME, project, svc } from "../cli/_svc.ts";
import { agentOf } from "./_agent.ts";
import { ServiceProcess } from "./_process.ts";

/** An isolated agent whose handler begins with some code, makes a step, and asks; and one that is not isolated. */
const controller = (begins: string, step: string, version: string) => `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
const did = (what) => appendFileSync("did.log", what + "\\n");
const payer = defineAgent({
  name: "Payer", version: "${version}", isolate: { memory: "160mb", timeout: "2s", permissions: { write: ["did.log"] } },
  methods: { job_start: { async run({ job }) {
    ${begins}
    const item = await job.openCase({ id: job.id + "-case", name: "a" });
    await item.step("${step}", () => did("${step}"));
    const { text } = await item.ask("pay", { question: "Pay it?", fields: [{ name: "text", required: true }] });
    await item.close();
    return text;
  } } },
});
const other = defineAgent({
  name: "Other", version: "1.0.0", methods: { job_start: { run: ({ job }) => job.step("work", () => "done") } },
});
export default createServer({ agents: [payer, other], port: 0 });
`;

const ENDS: [what: string, code: string, how: RegExp][] = [
  // Blocks as an endless loop does, and costs no processor time.
  [
    "hangs",
    "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);",
    /did not answer for 2 s, as in an endless loop/,
  ],
  ["exits", "process.exit(0);", /exited with code 0/],
  [
    "uses all memory",
    "const all = []; for (;;) all.push(Array(1e6).fill(all.length));",
    /ran out of its 160 MB of memory|did not answer for 2 s/,
  ],
];

for (const [what, code, how] of shareOf(ENDS, 3))
  test(
    `a held job of an isolated agent whose new code ${what} stays held: the service and other jobs continue, and checks report it`,
    async () => {
      const folder = await project({ "controller.mjs": controller("", "fetch", "1.0.0") });
      const deploy = async (...given: Parameters<typeof controller>) => {
        await service.kill();
        await writeFile(join(folder, "controller.mjs"), controller(...given));
        await service.start();
      };
      const command = (...args: string[]) => svc(args, { cwd: folder });
      const service = await ServiceProcess.in(folder);
      await service.startJob("payer", "job-1");
      await service.until("job-1", ["awaiting"]);
      await deploy("", "load", "2.0.0");
      await expect.poll(() => service.output).toMatch(/the job is held/);

      await deploy(code, "fetch", "3.0.0");
      await expect.poll(() => service.output, { timeout: 60_000 }).toMatch(/a held job stays held/);
      await service.startJob("other", "job-2");
      const other = await service.until("job-2", ["completed", "failed"]);
      const moved = await command("job", "move", "job-1", "--to", "3.0.0");
      const continued = await command("job", "continue", "job-1");
      const held = JSON.parse((await command("job", "show", "job-1", "--json")).stdout) as object;
      const { output } = service;
      await service.kill();
      const check = await command("check", "controller.mjs", "--json");
      const replayed = await command("job", "replay", "job-1", "controller.mjs", "--json");
      await deploy("", "fetch", "3.0.1");
      const answered = await service.send("/jobs/job-1/cases/job-1-case/update", { answer: { text: "yes" } });
      const done = await service.until("job-1", ["completed", "failed"]);

      expect(output).toMatch(how);
      expect(other.status).toBe("completed");
      expect(JSON.stringify(held)).toContain("code_changed");
      expect(JSON.parse(check.stdout), check.stderr).toMatchObject({
        jobs: 1,
        problems: [{ id: "job-1", verdict: "held", message: expect.stringMatching(how) }],
      });
      expect(check.code).toBe(1);
      for (const { code, stderr } of [moved, continued])
        expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringMatching(how) });
      expect(JSON.parse(replayed.stdout)).toMatchObject({
        verdict: "failed",
        message: expect.stringMatching(how),
      });
      expect(answered.status).toBe(200);
      expect(done).toMatchObject({ status: "completed", message: "yes" });
      expect(await service.did()).toEqual(["fetch"]);
      expect(await service.end()).toBe(0);
    },
    PROCESS_TIME,
  );

test("a rehearsal whose time is over waits until the process has answered: one that hangs does not fit, and has no network", async () => {
  const folder = await project();
  const module = join(folder, "agent.mjs");
  const write = (begins: string) =>
    writeFile(
      module,
      `export const worker = { name: "Worker", version: "1.0.0", methods: { job_start: { run: async ({ job }) => { await new Promise((done) => setTimeout(done, 50)); ${begins}; await job.step("one", () => 1); await job.step("two", () => 2); } } } };`,
    );
  const agent = new AgentRegistry([agentOf(() => {}, { isolate: { module, timeout: "1s" } })]).find(
    "worker",
  )!;
  const at = "2026-01-01T00:00:00.000Z";
  const open = {
    job: {
      ...{ id: "job-1", agent_name: "worker", job_fields: {}, created_at: at, run_count: 1 },
      job_context: { job_id: "job-1", workspace_id: "local", job_instructions: null },
    },
    cases: [],
    log: [
      { type: "call", call: "step", at, name: "one", n: 0, position: 0, made: 0, outside: true, result: 1 },
    ],
  } as unknown as OpenJob;
  const rehearseOnce = async (begins: string) => {
    await write(begins);
    const processes = new AgentProcesses(undefined, { isOffline: true, hidden: [] });
    try {
      return await rehearseOpen(agent, open, { env: {}, processes, longest: 300 });
    } finally {
      processes.close();
    }
  };

  const fits = await rehearseOnce("");
  const asks = await rehearseOnce('(await import("node:net")).connect(9, "127.0.0.1")');
  const hangs = await rehearseOnce("for (;;)");

  expect(fits).toMatchObject({ end: undefined, next: [{ name: "two" }] });
  expect(asks.end).toMatchObject({ message: expect.stringMatching(/There is no network/) });
  expect(hangs.end).toMatchObject({ reason: "crashed", message: expect.stringMatching(/endless loop/) });
});
