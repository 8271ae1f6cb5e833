import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { PROCESS_TIME, project, svc } from "../cli/_svc.ts";
import { ServiceProcess } from "./_process.ts";

/** Each handler is that of two agents: one in the service's process, and an isolated one. */
const controller = (version: string, handlers: Readonly<Record<string, string>>) => `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
const did = (what) => () => appendFileSync("did.log", what + "\\n");
const forever = () => new Promise(() => {});
async function ask(job) {
  const item = await job.openCase({ id: job.id + "-case", name: "a" });
  await item.ask("which", { question: "Which?", fields: [{ name: "text", required: true }] });
  await item.close();
}
const agents = [];
for (const [name, run] of Object.entries({
  ${Object.entries(handlers)
    .map(([name, code]) => `${name}: async ({ job }) => { ${code} }`)
    .join(",\n  ")}
})) for (const isolate of [false, { permissions: { write: ["did.log"] } }])
  agents.push(defineAgent({ name: name + (isolate ? " apart" : ""), version: "${version}", isolate, methods: { job_start: { run } } }));
export default createServer({ agents, port: 0 });
`;

const BEFORE = {
  waits: `await job.step("first", did(job.id)); await ask(job);`,
  works: `await job.step("first", did(job.id)); await job.step("second", forever);`,
};
const AFTER = {
  waits: `await job.step("first", did(job.id)); const is = job.changed("x"); if (is) await job.step("new", did("wrong")); await ask(job); return { is, again: job.changed("x"), later: job.changed("y") };`,
  // What is recorded is made before the question, and given back after it.
  works: `const first = job.step("first", did(job.id)); const is = job.changed("x"); did(job.id + " " + is)(); await first; await job.step(is ? "new" : "old", did(job.id + " new")); await ask(job); return { is, again: job.changed("x") };`,
  fresh: `const is = job.changed("x"); await job.step(is ? "new" : "old", did(job.id)); await ask(job); return { is };`,
};

test(
  "job.changed gives an isolated agent the same answers as one in the service's process, and keeps them",
  async () => {
    const folder = await project({ "controller.mjs": controller("1.0.0", BEFORE) });
    const service = await ServiceProcess.in(folder);
    const both = (names: readonly string[]) => names.flatMap((name) => [name, `${name}-apart`]);
    const old = both(Object.keys(BEFORE));
    const all = both(Object.keys(AFTER));
    for (const name of old) await service.startJob(name, name);
    await expect.poll(async () => (await service.did()).toSorted()).toEqual(old.toSorted());
    for (const name of both(["waits"])) await service.until(name, ["awaiting"]);
    await service.kill();
    await writeFile(join(folder, "controller.mjs"), controller("2.0.0", AFTER));

    const check = await svc(["check", "controller.mjs", "--json"], { cwd: folder });
    await service.start();
    for (const name of both(["fresh"])) await service.startJob(name, name);
    for (const name of all) await service.until(name, ["awaiting"]);
    await service.kill();
    await service.start();
    for (const name of all) {
      await service.until(name, ["awaiting"]);
      await service.send(`/jobs/${name}/cases/${name}-case/update`, { answer: { text: "this" } });
    }
    const ends = await Promise.all(all.map((name) => service.until(name, ["completed", "failed"])));

    expect(JSON.parse(check.stdout), check.stderr).toMatchObject({
      jobs: 4,
      fit: 4,
      problems: [],
      unsure: [],
    });
    const results = Object.fromEntries(all.map((name, at) => [name, ends[at]!.payload]));
    const expected = {
      waits: { is: false, again: false, later: true },
      works: { is: true, again: true },
      fresh: { is: true },
    };
    for (const [name, result] of Object.entries(expected)) {
      expect([name, results[name]]).toEqual([name, result]);
      expect([`${name}-apart`, results[`${name}-apart`]]).toEqual([`${name}-apart`, result]);
    }
    const done = await service.did();
    expect(done).not.toContain("wrong");
    // The isolated handler was given another answer at first, and began again: this shows that it did.
    expect(done).toContain("works-apart false");
    for (const name of both(["works"])) expect(done.filter((one) => one === `${name} new`)).toHaveLength(1);
  },
  PROCESS_TIME,
);
