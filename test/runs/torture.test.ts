// @alone
// @long
// @losses
import { existsSync } from "node:fs";
import { cp, readFile, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { beginSvc, project, REPOSITORY, svc } from "../cli/_svc.ts";

const ROUNDS = process.env.SVC_TORTURE_ROUNDS ?? "3";
/** Rounds of several instances, and from how many on there are as many as of one service. */
const FEW = 3;
const MANY = 50;
/** What `npm run torture` starts. */
const TORTURE = [
  process.execPath,
  ...["node_modules/jiti/lib/jiti-cli.mjs", "test/runs/torture/main.ts"].map((path) =>
    join(REPOSITORY, path),
  ),
];

test("svc torture: the examples neither lose nor repeat anything, however often they are killed", async () => {
  const cwd = await project();
  await cp(join(REPOSITORY, "examples"), join(cwd, "examples"), { recursive: true });
  // What the examples import besides the package.
  for (const name of ["ai", "@ai-sdk", "unpdf"])
    await symlink(join(REPOSITORY, "node_modules", name), join(cwd, "node_modules", name));
  const args = ["--rounds", ROUNDS, "--field", "deadline=1h", "--json"];

  const { code, stdout, stderr } = await svc(["torture", "examples/controller.ts", ...args], { cwd });

  expect(stderr).not.toContain("Error");
  const verdict = JSON.parse(stdout) as Record<string, unknown>;
  expect(verdict).toMatchObject({ problems: [], lost: 0, doubled: 0, wrong: 0 });
  expect(verdict.jobs).toBeGreaterThanOrEqual(3 * Number(ROUNDS));
  expect(code).toBe(0);
}, 900_000);

// Instances cost more: every fourth commit's check has them.
const SEVERAL = shareOf([["--instances", "3"], undefined, undefined, undefined], 4);
const ENCRYPTED = shareOf([["--encrypted"], ["--instances", "3", "--encrypted"], undefined, undefined], 4);
const MIXES = [[], ...[...SEVERAL, ...ENCRYPTED].flatMap((one) => (one ? [one] : []))];

describe.each(MIXES)("npm run torture -- %s %s %s", (...options) => {
  const { it } = options.includes("--instances") ? requirement("postgres") : { it: test };
  it(
    "loses, doubles and swaps nothing, whatever code the service is started with",
    () => tortureMix(options),
    900_000,
  );
});

async function tortureMix(options: readonly string[]): Promise<void> {
  const areSeveral = options.includes("--instances");
  const rounds = areSeveral && Number(ROUNDS) < MANY ? String(FEW) : ROUNDS;
  const args = [...options, "--rounds", rounds, "--jobs", "1", "--json"];
  // So short that others claim the jobs of an instance within the test.
  const env = { SVC_LEASE: "5000" };

  const { code, stdout, stderr } = await svc(args, { cwd: await project(), env, command: TORTURE });

  if (!areSeveral) expect(stderr).not.toContain("Error");
  const verdict = JSON.parse(stdout) as Record<string, unknown>;
  expect(verdict).toMatchObject({ problems: [], lost: 0, doubled: 0, swapped: 0, wrong: 0 });
  const { children, events, scheduled } = verdict.beside as Record<string, number>;
  expect(Math.min(children!, events!, scheduled!)).toBeGreaterThan(0);
  expect(code).toBe(0);
}

test("svc torture: concurrent chains of steps, and time limits, end as if undisturbed", async () => {
  const cwd = await project({
    "controller.mjs": `
import { createServer, defineAgent } from "agent-control-service";
const pause = (ms, value) => new Promise((resolve) => setTimeout(() => resolve(value), ms));
// The first takes longest, so that steps end in another order than they begin.
const chains = (on, of) => Promise.all([0, 1, 2, 3].map(async (n) => {
  const text = await on.step("fetch", () => pause(300 * (4 - n), of + n));
  return on.step("process", () => pause(100 + 200 * n, "summary of " + text + " for " + n));
}));
const parallel = defineAgent({
  name: "Parallel", version: "1.0.0",
  methods: { job_start: { async run({ job }) {
    const item = await job.openCase({ id: job.id + "-a", name: "a" });
    const both = await Promise.all([chains(job, "doc"), chains(item, "page")]);
    const late = await Promise.race([job.step("slow", () => pause(60_000, "slow")), job.sleep("200ms")]);
    await item.close({ pages: both[1] });
    return { both, late: late ?? "too late", after: await job.step("after", () => pause(300, "after")) };
  } } },
});
export default createServer({ agents: [parallel] });
`,
  });

  const args = ["torture", "controller.mjs", "--rounds", "5", "--jobs", "1", "--seed", "1"];
  const { code, stdout } = await svc(args, { cwd });

  expect(stdout).not.toContain("FAILED");
  expect(code, stdout).toBe(0);
}, 300_000);

test("svc torture finds an agent whose work is repeated by a crash", async () => {
  const cwd = await project({
    "controller.mjs": `
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
writeFileSync("strict", String(process.env.SERVICE_STRICT_STEPS));
// The count is kept outside of any step: a resumed run counts again.
const careless = defineAgent({
  name: "Careless", version: "1.0.0",
  methods: { job_start: { async run({ job }) {
    let count = 0;
    try { count = Number(readFileSync(job.id + ".count", "utf8")); } catch {}
    writeFileSync(job.id + ".count", String(count + 1));
    await job.step("slow", () => pause(3000));
    return { starts: Number(readFileSync(job.id + ".count", "utf8")) };
  } } },
});
export default createServer({ agents: [careless] });
`,
  });

  const { code, stdout } = await svc(["torture", "controller.mjs", "--rounds", "1", "--seed", "1"], { cwd });

  const kept = /the data is in (\S+)/.exec(stdout)?.[1];
  if (kept) await rm(kept, { recursive: true, force: true });

  expect(stdout).toContain("FAILED");
  // Calls inside the functions of steps are found wherever they are made.
  expect(await readFile(join(cwd, "strict"), "utf8")).toBe("true");
  expect(stdout).toMatch(/job\.result\.starts is \d, without kills it is 1/);
  expect(stdout).toContain("--seed 1");
  expect(code).toBe(1);
}, 120_000);

test("svc torture keeps the data of a service that does not restart after a kill, and says why", async () => {
  const cwd = await project({
    "controller.mjs": `
import { existsSync, writeFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
const quick = defineAgent({ name: "Quick", version: "1.0.0", methods: { job_start: { run: () => "done" } } });
if (existsSync("started")) throw new Error("the second start is the last");
writeFileSync("started", "");
export default createServer({ agents: [quick] });
`,
  });

  const { code, stderr } = await svc(["torture", "controller.mjs", "--rounds", "1", "--seed", "1"], { cwd });

  const kept = /the data is in (\S+)/.exec(stderr)?.[1];
  expect(kept).toBeDefined();
  expect(existsSync(kept!)).toBe(true);
  await rm(kept!, { recursive: true, force: true });
  expect(stderr).toContain("The service does not start for the test");
  expect(stderr).toContain("the second start is the last");
  expect(code).toBe(1);
}, 120_000);

test("svc torture does not report a question that expired while the service was down as an error", async () => {
  const cwd = await project({
    "controller.mjs": `
import { existsSync, writeFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
// Undisturbed there is time to answer; after the first kill there is none.
const deadline = existsSync("killed") ? "1ms" : "1h";
const asks = defineAgent({
  name: "Asks", version: "1.0.0",
  methods: { job_start: { async run({ job }) {
    if (!job.id.startsWith("undisturbed")) { writeFileSync("killed", ""); await job.sleep("2s"); }
    const item = await job.openCase({ id: "case-" + job.id, name: "Case" });
    const fields = [{ name: "text", required: true }];
    const { text } = await item.ask({ question: "What?", fields, deadline, onTimeout: "default", default: { text: "nobody" } });
    return { text };
  } } },
});
export default createServer({ agents: [asks] });
`,
  });

  const { code, stdout } = await svc(["torture", "controller.mjs", "--rounds", "1", "--seed", "1"], { cwd });

  expect(stdout).toMatch(/in [12] jobs a question expired/);
  expect(stdout).toContain("PASSED");
  expect(code).toBe(0);
}, 120_000);

test("svc torture that is interrupted ends the service under test before itself", async () => {
  const cwd = await project({
    "controller.mjs": `
import { writeFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
const quick = defineAgent({ name: "Quick", version: "1.0.0", methods: { job_start: { run: () => "done" } } });
writeFileSync("pid", String(process.pid));
export default createServer({ agents: [quick] });
`,
  });
  const torture = beginSvc(["torture", "controller.mjs", "--rounds", "1000", "--seed", "1"], { cwd });
  await torture.prints(/seed 1/);

  torture.process.kill("SIGTERM");
  const { code, stderr } = await torture.finished;

  const kept = /the data is in (\S+)/.exec(stderr)?.[1];
  if (kept) await rm(kept, { recursive: true, force: true });
  expect(stderr).toContain("The test was interrupted");
  expect(code).toBe(130);
  const pid = Number(await readFile(join(cwd, "pid"), "utf8"));
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
}, 120_000);
