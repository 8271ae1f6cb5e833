// @long
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import type { JournalLine } from "../../src/deploy/journal.ts";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { jobContext } from "../runs/_jobs.ts";
import { freePort } from "./_local-project.ts";
import { type Engine, startEngine } from "./server/engine.ts";
import { failure, type Said, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd", "engine");

let sshd: Sshd;
let engine: Engine;
let sshConfig: string;
beforeAll(async () => {
  if (!met) return;
  sshd = await startSshd();
  engine = await startEngine(1_500_000_000);
  sshConfig = sshd.restricted(
    "engine",
    `DOCKER_HOST=${engine.host}; export DOCKER_HOST; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"`,
  );
});
afterAll(async () => {
  await engine?.close();
  await sshd?.close();
});

/** A service on the engine, in step one, with an open question. */
async function asking() {
  const at = await site(sshConfig, await freePort());
  const mine = at.checkout();
  mine.step("one");
  await mine.up();
  await at.ask("/agents/asker/jobs", { job_context: jobContext("open"), job_fields: {} });
  const job = () => at.ask<{ status: string; message: string }>("/jobs/open").catch(() => undefined);
  const asks = () => expect.poll(async () => (await job())?.status, { timeout: 60_000 }).toBe("awaiting");
  await asks();
  return {
    at,
    mine,
    asks,
    /** The error of an `up`. */
    fails: async (said: Said = {}) => failure(await mine.up(said).catch((error: unknown) => error)),
    async answer() {
      await asks();
      await at.ask("/jobs/open/cases/one/update", { answer: { word: "done" } });
      await expect.poll(async () => (await job())?.message, { timeout: 60_000 }).toMatch(/^done/);
      return (await job())?.message;
    },
    running: () => engine.docker("ps", "--quiet", "--filter", `name=${at.serviceName}.`).split("\n"),
  };
}

/** Does something when `up` is about to make the first change with this name. */
function when(step: string, action: () => void): Said {
  let left = 1;
  return {
    onJournal: (line: JournalLine) => {
      if (line.step === step && left-- > 0) action();
    },
  };
}

const STEPS = ["container.create", "container.switch"];

describe("a server whose engine crashes", () => {
  it("keeps an open question, and a repeated command ends an update in which that happened", async () => {
    const { mine, asks, fails, answer, running } = await asking();

    engine.kill();
    const without = await fails();
    await engine.start();
    await asks();
    for (const step of STEPS) {
      mine.step(`at ${step}`);
      await fails(when(step, () => engine.kill()));
      await engine.start();
      await asks();
      // The first repetition ends the rollback in which the engine was not there.
      const ended = await mine.up().catch(failure);
      if ("code" in ended) expect(ended).toMatchObject({ code: "rolled_back" });
      await mine.up();
      await asks();
    }

    expect(`${without.message}. ${without.fix}`).toMatch(/Docker does not run on the server.*systemctl/);
    expect(running()).toHaveLength(1);
    expect(await answer()).toBe("done in at container.switch");
  }, 300_000);
});

describe("a server whose disk is full", () => {
  it("serves as before; once there is space a repeated command ends the update, and the job its work", async () => {
    const { at, mine, asks, fails, answer, running } = await asking();
    const job = () => at.ask("/jobs/open");

    engine.fill();
    mine.step("with a variable");
    const variable = await fails();
    await job();
    writeFileSync(join(mine.cwd, "service", "more.bin"), randomBytes(1_000_000));
    const image = await fails();
    await job();
    engine.free();
    await mine.up();
    await asks();

    mine.step("at the switch");
    const late = await fails(when("container.switch", () => engine.fill()));
    await asks();
    engine.free();
    await mine.up();

    expect(late).toMatchObject({ code: "rolled_back", exitCode: 3 });
    for (const error of [variable, image, late])
      expect(`${error.message}. ${error.fix}`).toMatch(/The disk of the server is full.*docker system df/);
    expect(running()).toHaveLength(1);
    expect(await answer()).toBe("done in at the switch");
  }, 300_000);
});
