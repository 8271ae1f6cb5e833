// @alone
// @long
// @losses
import { rmSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { limitOf, shareOf } from "../_share.ts";
import type { FlowPlatform } from "./flow/clouds.ts";
import { FLOWS } from "./flow/clouds.ts";
import type { Site } from "./flow/site.ts";
import { openSite } from "./flow/site.ts";
import type { Command } from "./killed/command.ts";
import { runCommand } from "./killed/command.ts";
import { type Kill, killer } from "./killed/kill.ts";
import type { LifeStep } from "./killed/life.ts";
import { LARGER, LIVES, livesOn, SETTINGS } from "./killed/life.ts";
import { settle } from "./killed/settle.ts";
import { cloudIn, describeWorld } from "./killed/world.ts";
import { frontFetch } from "./tools.ts";

/** Commands that make no more changes than this are mostly about rollouts. */
const FEW = 4;
/** The release of a target's lock: the last change of a command. */
const RELEASE = /^ecr DeleteRepository|^secretmanager DELETE .*svc-lock/;
/** Services that live at the same time. */
const WIDTH = 3;
const SHARES = 24;

/** What a step did where nothing disturbed it. */
interface Undisturbed {
  readonly world: string;
  readonly changes: readonly string[];
  /** Whether each of them took effect: a new project refuses what it has not enabled yet. */
  readonly effective: readonly boolean[];
}

let runAndKill: Awaited<ReturnType<typeof killer>>;
beforeAll(async () => {
  runAndKill = await killer();
});

function commandOf(flow: FlowPlatform, at: Site, step: LifeStep): Command {
  return {
    name: step.command,
    cwd: at.cwd,
    env: { ...at.env, SERVICE_API_KEY: step.apiKey, ...variablesOf(flow, step) },
    projectId: flow.projectId,
    flags: { ...(step.settings ? SETTINGS[flow.name] : {}), ...(step.larger ? LARGER[flow.name] : {}) },
  };
}

/** Apps have no vault that a key could be read from. */
function variablesOf(flow: FlowPlatform, { env }: LifeStep): Readonly<Record<string, string>> {
  const { PREVIOUS_WHERE_NEEDED: previous, ...others } = env ?? {};
  const isNeeded = flow.name === "do-app-platform" && previous !== undefined;
  return { ...others, ...(isNeeded ? { SERVICE_PREVIOUS_API_KEY: previous } : {}) };
}

async function liveUndisturbed(flow: FlowPlatform, life: readonly LifeStep[]): Promise<Undisturbed[]> {
  const at = await openSite(flow, { real: false });
  try {
    const steps: Undisturbed[] = [];
    for (const step of life) {
      step.edit?.(at);
      const before = at.cloud.recorder.changes.length;
      expect(await runCommand(commandOf(flow, at, step), { ...flow, ...at.cloud })).toBe(step.outcome);
      const { calls, refused } = at.cloud.recorder;
      const made = calls.filter(({ mutating }) => mutating).slice(before);
      const changes = made.map(({ name }) => name);
      const effective = made.map((call) => !refused.has(call));
      steps.push({ changes, effective, world: describeWorld(at.cloud.state, at.cwd, flow.name) });
    }
    expect(at.cloud.recorder.violations).toEqual([]);
    return steps;
  } finally {
    await at.close();
  }
}

/** The kills in one life, by step, and whether the killed commands are repeated in another checkout. */
interface Kills {
  readonly bySteps: readonly (Kill | undefined)[];
  readonly elsewhere: boolean;
  /** Whether a job starts between a killed command and the next one. */
  readonly busy?: boolean;
}

/** The same life, some of whose commands are killed and run again. Resolves with what went wrong. */
async function liveKilled(
  flow: FlowPlatform,
  life: readonly LifeStep[],
  undisturbed: readonly Undisturbed[],
  { bySteps: kills, elsewhere, busy = false }: Kills,
): Promise<string | undefined> {
  const at = await openSite(flow, { real: false });
  try {
    for (const [index, step] of life.entries()) {
      const { world, changes } = undisturbed[index]!;
      const kill = kills[index];
      const command = commandOf(flow, at, step);
      step.edit?.(at);
      const where = kill
        ? `${step.title}, killed ${kill.moment} change ${kill.call} (${changes[kill.call - 1]})${elsewhere ? " elsewhere" : ""}${busy ? " busy" : ""}`
        : step.title;
      const signal = kill && (await runAndKill(flow, at, command, kill));
      if (kill && signal !== "SIGKILL") return `${where}: the child was not killed (${signal})`;
      if (kill && (busy || kill.moment === "long after")) await settle(at.cloud.state);
      const keys = life.map(({ apiKey }) => apiKey);
      if (kill && busy && !(await callJobs(at, keys, "POST"))) return `${where}: no job could start`;
      if (kill && elsewhere) forget(at.cwd);
      // A service that is half made or half removed does not say whether it has jobs.
      const repeated = { ...command, acceptDataLoss: elsewhere && !life.some(({ spared }) => spared) };
      const repeat = () => runCommand(repeated, { ...flow, ...at.cloud }).catch(String);
      let ended = await repeat();
      if (kill && busy) {
        const isThere = String(await callJobs(at, keys, "GET")).includes("asking-1");
        if (!isThere) return `${where}: ended as ${ended}, and the open job has vanished`;
        await callJobs(at, keys, "DELETE");
        if (ended === "7 open_work") ended = await repeat();
      }
      if (ended !== step.outcome) return `${where}: ended as ${ended}, not ${step.outcome}`;
      const left = describeWorld(at.cloud.state, at.cwd, flow.name);
      const seen = elsewhere ? cloudIn : (text: string) => text;
      if (seen(left) !== seen(world)) return `${where}: ${firstDifference(seen(left), seen(world))}`;
      if (kills.slice(index + 1).every((later) => later === undefined)) break;
    }
    return at.cloud.recorder.violations[0];
  } finally {
    await at.close();
  }
}

/** Starts, lists or ends the job of the service, whichever of these keys it has now. */
async function callJobs(at: Site, keys: readonly string[], method: string): Promise<string | undefined> {
  const deployment = await at.open();
  const live = await deployment.session.inspect().finally(() => deployment.close());
  for (const key of keys) {
    const headers = { "x-api-key": key };
    const address = `${live?.url}/jobs?status=awaiting`;
    const response = await frontFetch(at.cloud.frontFor)(address, { method, headers });
    const text = await response.text();
    if (response.ok) return text;
  }
  return undefined;
}

/** Removes what this machine recorded: another checkout has only what is committed. */
function forget(cwd: string): void {
  for (const name of ["state", "state.json"])
    rmSync(join(cwd, ".deployment", name), { recursive: true, force: true });
}

/** Lives in which each step is killed at each of its changes, at each moment, in as few lives as can be. */
function planKills(undisturbed: readonly Undisturbed[], life: readonly LifeStep[]): Kills[] {
  const perStep = undisturbed.map(({ changes, effective }, step) => {
    const isLocked = RELEASE.test(changes.at(-1) ?? "");
    if (life[step]!.spared) return [];
    const few = changes.length - (isLocked ? 2 : 0) <= FEW;
    // A run has ended when it releases its lock. Repeated, these two do more: another try, a step further back.
    const { command, outcome } = life[step]!;
    const isLast = (index: number) => isLocked && index === changes.length - 1;
    return changes.flatMap((_, index): Kill[] => {
      if (isLast(index) && (outcome !== "done" || command === "rollback")) return [];
      const before: Kill = { call: index + 1, moment: "before" };
      if (!effective[index]) return [before];
      return [
        before,
        { call: index + 1, moment: "after" },
        ...(few ? [{ call: index + 1, moment: "long after" } as const] : []),
      ];
    });
  });
  const lives = Math.max(...perStep.map((kills) => kills.length));
  const here = Array.from({ length: lives }, (_, life) => perStep.map((kills) => kills[life]));
  // Elsewhere nobody knows which release a rollback began from, and a release that failed is tried once more.
  const isSame = life.map(({ command, outcome }) => command !== "rollback" && outcome === "done");
  const there = here.map((kills) => kills.map((kill, step) => (isSame[step] ? kill : undefined)));
  const losesJobs = life.some(({ spared }) => spared);
  return [
    ...(losesJobs
      ? [...here, ...there].map((bySteps, at) => ({ bySteps, elsewhere: at >= here.length, busy: true }))
      : []),
    ...here.map((bySteps) => ({ bySteps, elsewhere: false })),
    ...there
      .filter((kills) => kills.some((kill) => kill !== undefined))
      .map((bySteps) => ({ bySteps, elsewhere: true })),
  ];
}

function firstDifference(left: string, right: string): string {
  const [a, b] = [left.split("\n"), right.split("\n")];
  const line = a.findIndex((text, index) => text !== b[index]);
  const around = (all: string[]) => all.slice(Math.max(0, line - 6), line + 6).join("\n");
  return `left is\n${around(a)}\ninstead of\n${around(b)}`;
}

describe.each(FLOWS)("a service on $name whose commands are killed at any of their changes", (flow) => {
  it.each(livesOn(flow.name))(
    "finishes a repeated command, there or in another checkout: nothing twice, nothing missing (a %s life)",
    async (name) => {
      const life = LIVES[name]!;
      const undisturbed = await liveUndisturbed(flow, life);
      const lives = [...shareOf(planKills(undisturbed, life), SHARES)];

      const failures: string[] = [];
      const work = async () => {
        for (let kills = lives.shift(); kills !== undefined; kills = lives.shift()) {
          const failure = await liveKilled(flow, life, undisturbed, kills);
          if (failure !== undefined) failures.push(failure);
        }
      };
      await Promise.all(Array.from({ length: WIDTH }, work));

      expect(failures).toEqual([]);
    },
    limitOf(600_000, SHARES),
  );
});
