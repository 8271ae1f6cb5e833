// @long
import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { up } from "../../src/deploy/up.ts";
import type { Stage } from "./_fixture.ts";
import { stage, writeAll } from "./_fixture.ts";
import type { MemoryOptions } from "./_memory-platform.ts";

const FIRST = "the-first-api-key-0123456789";
const SECOND = "the-second-api-key-0123456789";
const yes = async () => true;

interface Run {
  readonly env?: Readonly<Record<string, string>>;
  /** The step of the journal at whose end the process dies. */
  readonly killAt?: string;
  readonly acceptDataLoss?: boolean;
}

/** An `up`; a killed one never returns from what it was about to do. */
async function run(at: Stage, { env = {}, killAt, acceptDataLoss = false }: Run = {}) {
  const dead = new Promise<never>(() => undefined);
  let die: () => void = () => undefined;
  const killed = new Promise<"killed">((resolve) => {
    die = () => resolve("killed");
  });
  const deployment = await at.open(
    { acceptDataLoss },
    { env: { PATH: process.env.PATH, SERVICE_API_KEY: FIRST, ...env } },
  );
  const { journal } = deployment;
  const record = journal.record.bind(journal);
  journal.record = async (step, call) => {
    const result = await record(step, call);
    if (step.step !== killAt) return result;
    die();
    return dead;
  };
  try {
    const ended = await Promise.race([up(deployment, yes), killed]);
    return ended === "killed" ? undefined : ended;
  } finally {
    await deployment.close();
  }
}

/** What another checkout knows: what is committed. */
const forget = (at: Stage) => rmSync(join(at.cwd, ".deployment/state"), { recursive: true, force: true });

const serving = (at: Stage) => {
  const { revisions, serving } = at.world.read().services["hello-dev"]!;
  return revisions.find(({ name }) => name === serving)!;
};

/** The value that the serving release has of a secret. */
const runningValue = (at: Stage, name: string) => {
  const version = Number(serving(at).secrets[name]?.split(":")[1]);
  return at.world.read().secrets["hello-dev"]?.[name]?.all[version - 1];
};

const open = (at: Stage, jobs: readonly string[]) =>
  at.world.change((world) =>
    Object.assign(world, {
      jobs: { "hello-dev": jobs.map((job_id) => ({ job_id, status: "awaiting" })) },
    }),
  );

async function deployed(options: Partial<MemoryOptions> = {}): Promise<Stage> {
  const at = await stage({ predictable: true, ...options });
  writeAll(at.cwd, { "deploy.yaml": "platform: memory\nname: hello\nsecrets: { PAY_TOKEN: }\n" });
  await run(at, { env: { PAY_TOKEN: "one" } });
  return at;
}

const KINDS: readonly (readonly [string, Partial<MemoryOptions>])[] = [
  ["that says what its releases refer to", {}],
  ["that says so by the mark alone", { refers: false }],
];

describe.each(KINDS)("a secret that a killed run has stored, on a platform %s", (_, options) => {
  it.each(["there", "in another checkout"])("is released by the next run %s", async (where) => {
    const at = await deployed(options);
    await run(at, { env: { PAY_TOKEN: "two" }, killAt: "secret PAY_TOKEN" });
    if (where !== "there") forget(at);

    const next = await run(at, { env: { PAY_TOKEN: "two" } });
    const last = await run(at, { env: { PAY_TOKEN: "two" } });

    expect(runningValue(at, "PAY_TOKEN")).toBe("two");
    expect(next?.plan.actions).toContainEqual(
      expect.objectContaining({
        resource_name: "PAY_TOKEN",
        action_type: "update",
        description: "stored, and not released yet",
      }),
    );
    expect(last).toMatchObject({ changed: false });
  });

  it("is released by a checkout that does not know its value", async () => {
    const at = await deployed(options);
    await run(at, { env: { PAY_TOKEN: "two" }, killAt: "secret PAY_TOKEN" });
    forget(at);

    await run(at);

    expect(runningValue(at, "PAY_TOKEN")).toBe("two");
  });

  it("is not replaced unasked by a run that releases it, where jobs are open", async () => {
    const at = await deployed({ ephemeralDisk: true, ...options });
    await run(at, { env: { PAY_TOKEN: "two" }, killAt: "secret PAY_TOKEN" });
    open(at, ["asking-1"]);
    const there = run(at, { env: { PAY_TOKEN: "two" } });
    await expect(there).rejects.toMatchObject({ code: "open_work", detail: "asking-1: awaiting" });
    forget(at);
    const elsewhere = run(at, { env: { PAY_TOKEN: "two" } });

    await expect(elsewhere).rejects.toMatchObject({ code: "open_work" });
    expect(runningValue(at, "PAY_TOKEN")).toBe("one");
  });
});

describe("a release of an earlier version, which has no mark", () => {
  /** Removes the mark from what runs. */
  const unmark = (at: Stage) =>
    at.world.change((world) => {
      for (const { env } of world.services["hello-dev"]!.revisions) delete env.SVC_RELEASE;
    });

  it("is up to date, and gets a mark with the next change", async () => {
    const at = await deployed({ refers: false });
    unmark(at);

    const same = await run(at);
    const changed = await run(at, { env: { PAY_TOKEN: "two" } });

    expect(same).toMatchObject({ changed: false });
    expect(changed).toMatchObject({ changed: true });
    expect(serving(at).env.SVC_RELEASE).toMatch(/^[0-9a-f]{16}-[0-9a-f]{16}$/);
    expect(runningValue(at, "PAY_TOKEN")).toBe("two");
  });

  it("has a secret that was not released, where its platform says what it refers to", async () => {
    const at = await deployed();
    unmark(at);
    await run(at, { env: { PAY_TOKEN: "two" }, killAt: "secret PAY_TOKEN" });
    unmark(at);
    forget(at);

    await run(at, { env: { PAY_TOKEN: "two" } });

    expect(runningValue(at, "PAY_TOKEN")).toBe("two");
  });
});

describe("the API key of a service whose jobs are in files", () => {
  const rotate = { env: { SERVICE_API_KEY: SECOND } };

  it.each(KINDS)("can be changed while nobody works, on a platform %s", async (_, options) => {
    const at = await deployed({ ephemeralDisk: true, ...options });

    await run(at, rotate);

    expect(runningValue(at, "SERVICE_API_KEY")).toBe(SECOND);
  });

  it("opens it for the second question too, after the new one was stored", async () => {
    const at = await deployed({ ephemeralDisk: true });
    open(at, ["asking-1"]);

    await expect(run(at, rotate)).rejects.toMatchObject({
      code: "open_work",
      detail: "asking-1: awaiting",
    });
    await run(at, { ...rotate, acceptDataLoss: true });

    expect(runningValue(at, "SERVICE_API_KEY")).toBe(SECOND);
  });

  it.each(["there", "in another checkout"])(
    "is the stored one of before for a run that continues a killed one %s",
    async (where) => {
      const at = await deployed({ ephemeralDisk: true });
      await run(at, { ...rotate, killAt: "secret SERVICE_API_KEY" });
      if (where !== "there") forget(at);
      open(at, ["asking-1"]);
      const stopped = run(at, rotate);
      await expect(stopped).rejects.toMatchObject({ detail: "asking-1: awaiting" });
      open(at, []);

      await run(at, rotate);

      expect(runningValue(at, "SERVICE_API_KEY")).toBe(SECOND);
    },
  );

  it("is given as the previous one where the vault cannot be read", async () => {
    const at = await deployed({ ephemeralDisk: true, readable: false });
    const stopped = run(at, rotate);
    await expect(stopped).rejects.toMatchObject({
      message: expect.stringContaining("unknown"),
      fix: expect.stringContaining("SERVICE_PREVIOUS_API_KEY"),
    });

    await run(at, { env: { ...rotate.env, SERVICE_PREVIOUS_API_KEY: FIRST } });

    expect(runningValue(at, "SERVICE_API_KEY")).toBe(SECOND);
  });
});

it("a run that continues another one does not take an unknown answer for none", async () => {
  const at = await deployed({ ephemeralDisk: true, readable: false });
  writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
  await run(at, { env: { PAY_TOKEN: "two" }, killAt: "release" });
  open(at, ["asking-1"]);

  const continued = run(at, { env: { PAY_TOKEN: "two", SERVICE_API_KEY: "" } });

  await expect(continued).rejects.toMatchObject({ code: "open_work", message: /unknown/ });
  expect(runningValue(at, "PAY_TOKEN")).toBe("one");
});
