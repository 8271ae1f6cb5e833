import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { CliContext } from "../../../src/cli/context.ts";
import { reportError } from "../../../src/cli/report-error.ts";
import { torture } from "../../../src/cli/torture/run-torture.ts";
import type { Target } from "../../../src/cli/torture/target.ts";
import { describeVerdict, type Verdict } from "../../../src/cli/torture/verdict.ts";
import { Fleet } from "./fleet/fleet.ts";
import { Mix } from "./mix/mix.ts";
import type { MixCounts } from "./mix/mix-counts.ts";

/*
 * `npm run torture`: the service itself under kills, with agents that use children, events, schedules and questions, and
 * whose code changes; with `--instances`, several instances on a Postgres of their own; with `--encrypted`, what they store
 * is encrypted.
 */

const CLI = fileURLToPath(new URL("../../../dist/cli.js", import.meta.url));
const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "20" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 1_000_000)) },
    jobs: { type: "string", default: "2" },
    instances: { type: "string" },
    encrypted: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const [rounds, seed, jobs, instances] = [values.rounds, values.seed, values.jobs, values.instances].map(
  (text) => {
    if (text === undefined || /^\d+$/.test(text)) return Number(text);
    throw new Error(`"${text}" is not a whole number`);
  },
) as [number, number, number, number];

const context: CliContext = {
  ...{ argv: process.argv.slice(2), self: [process.execPath, CLI], cwd: process.cwd() },
  env: {
    ...process.env,
    ...(values.encrypted && { SERVICE_ENCRYPTION_KEYS: randomBytes(32).toString("base64") }),
  },
  ...{ interactive: false, platforms: {} },
  print: (line) => void process.stdout.write(`${line}\n`),
  note: (line) => void process.stderr.write(`${line}\n`),
};

/** The instances under test, where there are several. */
const fleets: Fleet[] = [];
const startFleet = async (program: Target, folder: string) => {
  const fleet = await Fleet.create({ program, folder, context, instances });
  fleets.push(fleet);
  return fleet;
};

try {
  const verdict = await torture({
    ...{ rounds, seed, context },
    command: `npm run torture -- --jobs ${jobs}${values.instances ? ` --instances ${instances}` : ""}${values.encrypted ? " --encrypted" : ""}`,
    target: (folder) => new Mix({ folder, jobs }),
    ...(values.instances && { subject: startFleet }),
  });
  const [strikes] = fleets.map((fleet) => fleet.strikes);
  if (values.json) context.print(JSON.stringify({ ...verdict, strikes }, null, 2));
  else context.print(describeVerdict(verdict, describeMix(verdict, strikes)));
  process.exitCode = verdict.problems.length === 0 ? 0 : 1;
} catch (error) {
  process.exitCode = reportError(error, "torture", context);
}

/** What only this test counts. */
function describeMix({ beside, swapped }: Verdict, strikes?: Readonly<Record<string, number>>): string[] {
  const mix = beside as MixCounts;
  const done = Object.entries(strikes ?? {}).map(([kind, count]) => `${kind} ${count}`);
  const waits = Object.entries(mix.takeOvers).map(
    ([how, { count, median, longest, of }]) =>
      `${count} after ${how} (median ${median} s, longest ${longest} s${of ? `: ${of}` : ""})`,
  );
  return [
    `beside them: ${mix.children} children, ${mix.events} events, ${mix.scheduled} planned times of schedules, ${mix.effects} effects of steps; the code changed ${mix.deploys} times, and jobs that it did not fit were held ${mix.held} times`,
    ...(strikes
      ? [`instances: ${done.join(", ")}`, `jobs that another instance claimed: ${waits.join(", ")}`]
      : []),
    `swapped: ${swapped}`,
  ];
}
