// @long
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Job } from "../../src/core/models/job.ts";
import { access, beginSvc, PROCESS_TIME, project, svc } from "./_svc.ts";

const CONTROLLER = `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
const did = (what) => appendFileSync(new URL("../did.txt", import.meta.url), what + "\\n");
const counter = defineAgent({
  name: "Counter",
  version: "1.0.0",
  parameters: [{ name: "TOKEN", is_required: true }],
  methods: {
    job_start: {
      fields: [
        { name: "count", field_type: "IntegerField", default: 3 },
        { name: "factor", field_type: "IntegerField", default: 1 },
      ],
      async run({ job, fields, parameters }) {
        const item = await job.openCase({ id: "sum", name: "Sum" });
        let sum = 0;
        for (let n = 1; n <= fields.count; n++) {
          sum += await item.step("add", () => { did(job.id + " add " + n); return n; });
          if (n % 100 === 0) await item.update({ name: "text", payload: { text: "x".repeat(10_000) } });
        }
        await item.close({ sum });
        return await job.step("multiply", () => ({ sum: sum * fields.factor, token: parameters.TOKEN.length }));
      },
    },
  },
});
export default createServer({ agents: [counter], host: "127.0.0.1", port: 0 });
`;

async function service() {
  const cwd = await project({ "src/controller.ts": CONTROLLER });
  const begin = async () => {
    const running = beginSvc(["start"], { cwd });
    await running.prints(/Press Ctrl-C to stop/);
    return running;
  };
  return { cwd, begin };
}

describe("svc job fork", { timeout: PROCESS_TIME }, () => {
  it("starts a job with the recorded beginning, other fields and the parameters of the original; both name each other", async () => {
    const { cwd, begin } = await service();
    await begin();
    const env = { TOKEN: "a secret token" };
    await svc(["job", "start", "counter", "--id", "one", "--param", "TOKEN", "--wait"], { cwd, env });
    const before = await svc(["job", "show", "one", "--calls", "--json"], { cwd });

    const forked = await svc(
      ["job", "fork", "one", "--from", "add#3", "--set", "factor=10", "--id", "two", "--wait"],
      { cwd },
    );
    const again = await svc(["job", "fork", "one", "--from", "add#3", "--set", "factor=10", "--id", "two"], {
      cwd,
    });
    const [original, fork, several, unknown, bad] = await Promise.all([
      svc(["job", "show", "one", "--json"], { cwd }),
      svc(["job", "show", "two", "--calls"], { cwd }),
      svc(["job", "fork", "one", "--from", "add"], { cwd }),
      svc(["job", "fork", "one", "--from", "send"], { cwd }),
      svc(["job", "fork", "one", "--from", "start", "--set", "factor=many"], { cwd }),
    ]);
    const did = (await readFile(join(cwd, "did.txt"), "utf8")).trim().split("\n");

    const shown = JSON.parse(before.stdout) as Job & { calls: { name: string }[] };
    expect(shown.calls.map(({ name }) => name)).toEqual([
      "open_case:sum",
      ...["sum/step:add#1", "sum/step:add#2", "sum/step:add#3"],
      ...["sum/close:completed", "step:multiply"],
    ]);
    expect(forked, forked.stderr).toMatchObject({ code: 0 });
    expect(again, again.stderr).toMatchObject({ code: 0 });
    expect(did).toEqual(["one add 1", "one add 2", "one add 3", "two add 3"]);
    expect(fork.stdout).toMatch(/fork of\s+one, up to line \d+/);
    expect(fork.stdout).toContain('result    {"sum":60,"token":14}');
    expect(fork.stdout).toContain("sum/step:add#3");
    expect(JSON.parse(original.stdout)).toMatchObject({ forks: ["two"], result: { sum: 6, token: 14 } });
    expect(several).toMatchObject({ code: 1, stderr: expect.stringContaining("sum/step:add#2") });
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining("step:multiply") });
    expect(bad).toMatchObject({ code: 1, stderr: expect.stringContaining("factor") });
  });

  it("leaves no half of a fork when the service is killed in the middle of it", async () => {
    const { cwd, begin } = await service();
    let running = await begin();
    const env = { TOKEN: "a secret token" };
    const start = [
      "job",
      "start",
      "counter",
      "--id",
      "one",
      "--field",
      "count=600",
      "--param",
      "TOKEN",
      "--wait",
    ];
    await svc(start, { cwd, env });
    const lines = async () => {
      const shown = await svc(["job", "show", "one", "--calls", "--json"], { cwd });
      return JSON.parse(shown.stdout) as Job & { calls: unknown[]; forks: string[] };
    };
    const original = await lines();
    const acknowledged = new Set<string>();
    const ids: string[] = [];

    for (let round = 0; round < 6; round++) {
      const { url, key } = await access(cwd);
      const headers = { "x-api-key": key, "content-type": "application/json" };
      for (let n = 0; n < 5; n++) {
        const id = `fork-${round}-${n}`;
        ids.push(id);
        const body = JSON.stringify({ from: "sum/add#600", job_id: id, fields: { factor: 2 } });
        fetch(`${url}/jobs/one/fork`, { method: "POST", headers, body })
          .then(({ status }) => status === 202 && acknowledged.add(id))
          .catch(() => {});
      }
      await new Promise((resolve) => setTimeout(resolve, round * 12));
      if (round === 5) await expect.poll(() => acknowledged.size).toBeGreaterThan(0);
      running.process.kill("SIGKILL");
      await running.finished;
      running = await begin();
    }
    const { url, key } = await access(cwd);
    const found = new Map<string, string>();
    const headers = { "x-api-key": key, "content-type": "application/json" };
    for (const id of ids) {
      const path = `${url}/jobs/${id}`;
      const read = () => fetch(`${path}/result`, { headers });
      const one = await read();
      if (one.status === 404) continue;
      // Three kills in a row may have met it: then a person has to retry it.
      if (((await one.json()) as Job).stop_reason === "crash_loop")
        await fetch(`${path}/retry`, { method: "POST", headers, body: '{ "from": "last_step" }' });
      let job = {} as Job;
      const status = async () => {
        job = (await (await read()).json()) as Job;
        return job.status;
      };
      await expect.poll(status).toBe("completed");
      found.set(id, JSON.stringify([job.result, job.case_ids]));
    }
    const after = await lines();

    for (const id of acknowledged) expect(found.has(id), id).toBe(true);
    for (const [id, end] of found)
      expect(end).toBe(JSON.stringify([{ sum: 360_600, token: 14 }, [`${id}-sum`]]));
    expect([...after.forks].sort()).toEqual([...found.keys()].sort());
    expect({ ...after, forks: [] }).toEqual({ ...original, forks: [] });
  });
});
