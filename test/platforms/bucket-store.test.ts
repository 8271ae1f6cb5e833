// @long
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { down } from "../../src/deploy/down.ts";
import { rollback } from "../../src/deploy/rollback.ts";
import type { UpOutcome } from "../../src/deploy/up.ts";
import { up } from "../../src/deploy/up.ts";
import { sharedRsaKey } from "../../src/testing/rsa-key.ts";
import { findBuild } from "../_built.ts";
import { BUCKETS } from "./flow/buckets.ts";
import type { FlowPlatform } from "./flow/clouds.ts";
import { FLOWS } from "./flow/clouds.ts";
import { ProcessImages } from "./flow/process-images.ts";
import type { Site } from "./flow/site.ts";
import { openSite } from "./flow/site.ts";

const KEY = "an-api-key-for-the-service-0123456789";

const CONTROLLER = `
import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { createServer, defineAgent } from "agent-control-service";
import * as v from "valibot";

const clerk = defineAgent({
  name: "Clerk",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        const step = (name) => job.step(name, () => {
          appendFileSync(process.env.STEPS, name + "\\n");
          return name + " by REVISION";
        });
        const first = await step("look");
        const item = await job.openCase({ id: "paper", name: "A paper" });
        const { ok } = await item.ask("sign", { question: "Sign it?", fields: v.object({ ok: v.boolean() }) });
        await item.close();
        return { message: [first, ok, await step("sign")].join(", ") };
      },
    },
  },
});

const porter = defineAgent({
  name: "Porter",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        await job.step("carry", async () => {
          appendFileSync(process.env.STEPS, job.id + " carried by REVISION\\n");
          while (!existsSync(process.env.STEPS + "." + job.id)) await delay(20);
        });
        return { message: "done by REVISION" };
      },
    },
  },
});

if (process.env.BROKEN) process.exit(1);
export default createServer({ agents: [clerk, porter] });
`;

let packages: string;
beforeAll(async () => {
  const build = await findBuild();
  packages = mkdtempSync(join(tmpdir(), "svc-packages-"));
  mkdirSync(join(packages, ".bin"));
  symlinkSync(build, join(packages, "agent-control-service"));
  symlinkSync(join(import.meta.dirname, "../../node_modules/valibot"), join(packages, "valibot"));
  symlinkSync(join(build, "dist/cli.js"), join(packages, ".bin/svc"));
}, 180_000);
afterAll(() => rmSync(packages, { recursive: true, force: true }));

describe.each(FLOWS)("a service on $name with only a bucket", (flow) => {
  it("continues jobs with an open question over a deployment and a rollback, and keeps the bucket to the end", async () => {
    const { site, bucket, steps, ask, deploy, back, remove } = await open(flow);
    try {
      const first = await deploy("one");
      await startJob(ask, "job-1");

      const second = await deploy("two");
      const ended = await answer(ask, "job-1");

      expect(ended).toMatchObject({ status: "completed", message: "look by one, true, sign by two" });
      expect(readFileSync(steps, "utf8")).toBe("look\nsign\n");
      const made = first.plan.actions.filter(({ resource_type }) => resource_type === "bucket");
      expect(made.map(({ action_type }) => action_type)).toEqual(bucket.created ? ["create"] : []);
      expect(second).toMatchObject({
        openWork: undefined,
        continued: { continued: 1, ended: 0, held: [] },
      });
      expect(notices(site)).not.toMatch(/wipes|accept-data-loss/);
      expect(bucket.rights()).toEqual(bucket.wanted);

      await startJob(ask, "job-2");
      const { health } = await back();

      expect(health.status).toBe("healthy");
      expect(await answer(ask, "job-2")).toMatchObject({ message: "look by two, true, sign by one" });

      await remove();
      expect(bucket.objects()).not.toEqual([]);
      expect([...site.cloud.recorder.violations, ...bucket.violations()]).toEqual([]);
    } finally {
      await bucket.close();
      await site.close();
    }
  }, 180_000);
});

it("--drain lets running jobs end before the service is replaced, and new ones wait for the next release", async () => {
  const { site, bucket, steps, ask, deploy, job } = await open(FLOWS[0]!);
  const { events } = site;
  const said = (text: RegExp) => events.some((event) => event.type === "report" && text.test(event.message));
  const carry = (id: string) => ask("/agents/porter/jobs", { job_context: contextOf(id), job_fields: {} });
  try {
    await deploy("one");
    await carry("first");
    await expect.poll(() => readFileSync(steps, "utf8")).toContain("first carried by one");

    const deploying = deploy("two", { drain: "24h" });
    await expect.poll(() => said(/waiting for 1 job to end/)).toBe(true);
    await carry("second");
    const waiting = await job("second");
    writeFileSync(`${steps}.first`, "");
    const { continued } = await deploying;
    const [first, second] = [await job("first"), await jobThat(ask, "second", (is) => is === "in_progress")];

    // What does not end in its time continues in the next release.
    await deploy("three", { drain: "1m" });
    writeFileSync(`${steps}.second`, "");
    const third = await jobThat(ask, "second", (is) => is === "completed");

    // After a release that failed, jobs start again.
    const settings = readFileSync(join(site.cwd, "deploy.yaml"), "utf8");
    site.write("deploy.yaml", settings.replace("{ STEPS", "{ BROKEN: 'yes', STEPS"));
    const failed = await deploy("four", { drain: "1m" }).catch((error: unknown) => error);
    await carry("fourth");
    await expect.poll(async () => (await job("fourth")).status, { timeout: 20_000 }).toBe("in_progress");

    expect(waiting).toMatchObject({
      status: "stopped",
      message: expect.stringMatching(/waits for a deployment/),
    });
    expect(continued).toMatchObject({ continued: 1, ended: 0 });
    expect(first).toMatchObject({ status: "completed", message: "done by one" });
    expect(second.status).toBe("in_progress");
    expect(JSON.stringify(events)).toMatch(/1 still runs and continues in the next release/);
    expect(third.message).toBe("done by three");
    expect(readFileSync(steps, "utf8")).toBe(
      "first carried by one\nsecond carried by two\nsecond carried by three\nfourth carried by three\n",
    );
    expect(failed).toMatchObject({ code: "rolled_back" });
  } finally {
    await bucket.close();
    await site.close();
  }
}, 180_000);

it("--drain lets running jobs end before a rollback too", async () => {
  const { site, bucket, steps, ask, deploy, back, job } = await open(FLOWS[0]!);
  const said = (text: RegExp) =>
    site.events.some((event) => event.type === "report" && text.test(event.message));
  const carry = (id: string) => ask("/agents/porter/jobs", { job_context: contextOf(id), job_fields: {} });
  try {
    await deploy("one");
    await deploy("two");
    await carry("first");
    await expect.poll(() => readFileSync(steps, "utf8")).toContain("first carried by two");

    const going = back("24h");
    await expect.poll(() => said(/waiting for 1 job to end/)).toBe(true);
    await carry("second");
    writeFileSync(`${steps}.first`, "");
    await going;
    const first = await job("first");
    await expect.poll(() => readFileSync(steps, "utf8"), { timeout: 20_000 }).toContain("second");

    expect(first).toMatchObject({ status: "completed", message: "done by two" });
    expect(readFileSync(steps, "utf8")).toBe("first carried by two\nsecond carried by one\n");
  } finally {
    await bucket.close();
    await site.close();
  }
}, 180_000);

async function open(flow: FlowPlatform) {
  const bucket = await BUCKETS[flow.name]!();
  let machine: ProcessImages | undefined;
  const site = await openSite(flow, {
    images: (pushed) => {
      machine = new ProcessImages(pushed, packages, {
        NODE_OPTIONS: `--import ${new URL("flow/machine.mjs", import.meta.url).href}`,
        ...bucket.machine,
      });
      return machine;
    },
  });
  bucket.attach(site.cloud);
  const steps = join(site.cwd, "../steps");
  site.write(
    "deploy.yaml",
    `storage: "${bucket.storage}"\nvariables: { STEPS: "${steps}" }\n${bucket.settings}`,
  );
  const keys = { SERVICE_API_KEY: KEY, SERVICE_RSA_PRIVATE_KEY: sharedRsaKey(), ...bucket.env };
  let url = "";
  const run = async <T>(
    command: (deployment: Awaited<ReturnType<Site["open"]>>) => Promise<T>,
    options: Parameters<Site["open"]>[0] = {},
  ) => {
    const deployment = await site.open(options, keys);
    try {
      return await command(deployment);
    } finally {
      await deployment.close();
    }
  };
  return {
    site,
    bucket,
    steps,
    async deploy(revision: string, options: Parameters<Site["open"]>[0] = {}): Promise<UpOutcome> {
      site.write("src/controller.ts", CONTROLLER.replaceAll("REVISION", revision));
      const outcome = await run((deployment) => up(deployment, async () => true), options);
      url = outcome.release.url ?? "";
      return outcome;
    },
    back: (time?: string) =>
      run((deployment) => rollback(deployment, { to: undefined, drain: time, consent: async () => true })),
    remove: () => run((deployment) => down(deployment, async () => true)),
    job: (id: string) => ask(`/jobs/${id}`) as Promise<{ status: string; message: string }>,
    ask,
  };

  async function ask(path: string, body?: object): Promise<unknown> {
    const { host } = new URL(url);
    const send = () =>
      fetch(`${site.cloud.frontFor(host)}${path}`, {
        method: body ? "POST" : "GET",
        headers: { "x-api-key": KEY, "content-type": "application/json", "x-forwarded-host": host },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
    let response = await send();
    // A standby that takes the store over asks for that.
    for (; response.status === 503; response = await send()) await delay(100);
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }
}

type Ask = (path: string, body?: object) => Promise<unknown>;

function contextOf(job_id: string) {
  const who = { workspace_id: "w", started_by: "test", mission_id: "m", mission_name: "m" };
  return { ...who, job_id, started_at: new Date().toISOString() };
}

async function startJob(ask: Ask, job_id: string): Promise<void> {
  await ask("/agents/clerk/jobs", { job_context: contextOf(job_id), job_fields: {} });
  await jobThat(ask, job_id, (status) => status === "awaiting");
}

/** Answers the question of a job, and waits for its end. */
async function answer(ask: Ask, id: string) {
  await ask(`/jobs/${id}/cases/paper/update`, { answer: { ok: true }, message: "yes" });
  return jobThat(ask, id, (status) => status === "completed" || status === "failed");
}

async function jobThat(ask: Ask, id: string, isIt: (status: string) => boolean) {
  const read = () => ask(`/jobs/${id}`) as Promise<{ status: string; message: string }>;
  await expect.poll(async () => isIt((await read()).status)).toBe(true);
  return read();
}

function notices({ events }: Site): string {
  return events.flatMap((event) => (event.type === "notice" ? [event.message] : [])).join("\n");
}
