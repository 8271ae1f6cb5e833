// @alone
// @long
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { bundleChild } from "../_bundle.ts";
import { shareOf } from "../_share.ts";
import { PROJECT, writeAll } from "./_fixture.ts";
import type { Command } from "./_perform.ts";
import { perform } from "./_perform.ts";
import type { WorldFile } from "./_world.ts";
import { openWorld, serveWorld } from "./_world.ts";

/** Children at a time. */
const WIDTH = 3;

/** Configurations, each of which makes another release. */
const ONE = "environment: {STEP: one}\n";
const TWO = "environment: {STEP: two}\n";
const SICK = "environment: {STEP: three, SICK: '500'}\n";

interface Scenario {
  readonly title: string;
  /** Configurations deployed before, one after the other. */
  readonly before: readonly string[];
  readonly config: string;
  /** The command that is killed. */
  readonly command: Command;
  /** The one that is run after it. @default the same */
  readonly next?: Command;
  readonly canary?: boolean;
  readonly outcome: string;
}

const SCENARIOS: readonly Scenario[] = [
  { title: "a first deployment", before: [], config: ONE, command: "up", outcome: "done" },
  { title: "an update", before: [ONE], config: TWO, command: "up", outcome: "done" },
  {
    title: "an update that is held back",
    before: [ONE],
    config: TWO,
    command: "up",
    canary: true,
    outcome: "done",
  },
  {
    title: "an update that is rolled back",
    before: [ONE],
    config: SICK,
    command: "up",
    outcome: "rolled_back",
  },
  { title: "a rollback", before: [ONE, TWO], config: TWO, command: "rollback", outcome: "done" },
  { title: "a removal", before: [ONE], config: ONE, command: "down", outcome: "done" },
  {
    title: "a first deployment, then removed",
    before: [],
    config: ONE,
    command: "up",
    next: "down",
    outcome: "done",
  },
];

interface Site {
  readonly cwd: string;
  readonly world: WorldFile;
  readonly worldPath: string;
  readonly base: string;
  close(): Promise<void>;
}

let child: string;
beforeAll(async () => {
  child = await bundleChild(new URL("_deploy-child.ts", import.meta.url));
});

describe("a command killed at any line of its journal", () => {
  it.each(shareOf(SCENARIOS, 2))(
    "finishes when it is repeated as if it had not been killed: $title",
    async (scenario) => {
      const undisturbed = await site(scenario);
      const { lines, outcome } = JSON.parse((await runChild(undisturbed, scenario, 0)).out);
      if (scenario.next) await run(undisturbed, scenario, scenario.next);
      const calls = undisturbed.world.read().calls;
      const services = shape(undisturbed.world);
      await undisturbed.close();
      expect(outcome).toBe(scenario.outcome);
      expect(lines).toBeGreaterThan(2);

      const kills = Array.from({ length: lines }, (_, index) => index + 1);
      const failures: string[] = [];
      const work = async () => {
        for (let killAt = kills.shift(); killAt !== undefined; killAt = kills.shift()) {
          const at = await site(scenario);
          try {
            const { signal } = await runChild(at, scenario, killAt);
            const ended = await run(at, scenario, scenario.next ?? scenario.command);
            const made = at.world.read().calls;
            if (signal !== "SIGKILL") failures.push(`${killAt}: ended with ${signal}`);
            if (ended !== scenario.outcome) failures.push(`${killAt}: ${ended}`);
            // What was cut short and then removed has made fewer calls, but none twice.
            const expected = scenario.next ? [...new Set(made)] : calls;
            if (String(made) !== String(expected)) failures.push(`${killAt}: ${made}`);
            if (shape(at.world) !== services) failures.push(`${killAt}: ${shape(at.world)}`);
            if (existsSync(join(at.cwd, ".deployment/state/memory/hello-dev.journal")))
              failures.push(`${killAt}: the journal is left`);
          } finally {
            await at.close();
          }
        }
      };
      await Promise.all(Array.from({ length: WIDTH }, work));

      expect(failures).toEqual([]);
    },
    400_000,
  );
});

/** A project and a world in which the configurations before were deployed. */
async function site(scenario: Scenario): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), "svc-resume-"));
  const cwd = join(folder, "hello");
  writeAll(cwd, PROJECT);
  const worldPath = join(folder, "world.json");
  const world = openWorld(worldPath);
  const served = await serveWorld(world);
  const at = {
    cwd,
    world,
    worldPath,
    base: served.url,
    async close() {
      await served.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  for (const config of scenario.before) {
    writeAll(cwd, { ".deployment/config.yaml": config });
    await run(at, { ...scenario, canary: false }, "up");
  }
  writeAll(cwd, { ".deployment/config.yaml": scenario.config });
  return at;
}

function run(
  { cwd, worldPath, base }: Site,
  { canary = false }: Scenario,
  command: Command,
): Promise<string> {
  return perform({ command, cwd, world: worldPath, base, canary });
}

function runChild(
  { cwd, worldPath, base }: Site,
  { command, canary = false }: Scenario,
  killAt: number,
): Promise<{ signal: string | null; out: string }> {
  const options = JSON.stringify({ command, cwd, world: worldPath, base, canary, killAt });
  const running = spawn(process.execPath, [child, options], {
    env: { PATH: process.env.PATH ?? "" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  running.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  return new Promise((resolve) => running.once("close", (_code, signal) => resolve({ signal, out })));
}

/** The content of a world, without what always differs between two runs. */
function shape(world: WorldFile): string {
  const { services, secrets, locks } = world.read();
  const revisions = Object.values(services).map((service) => ({
    serving: service.serving,
    instances: service.instances,
    revisions: service.revisions.map(({ name, env, secrets: refs }) => [
      name,
      env.STEP,
      Object.keys(env).sort(),
      Object.values(refs),
    ]),
  }));
  const kept = Object.values(secrets).map((mine) =>
    Object.entries(mine).map(([key, { version }]) => [key, version]),
  );
  return JSON.stringify({ revisions, kept: kept.filter((mine) => mine.length > 0), locks });
}
