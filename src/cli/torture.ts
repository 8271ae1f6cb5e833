import * as v from "valibot";
import { option } from "../core/base/option.ts";
import { defineCommand } from "./command.ts";
import { UsageError } from "./errors.ts";
import { findController } from "./load-controller.ts";

const wholeNumber = (least: number) =>
  v.pipe(v.number(), v.integer("must be a whole number"), v.minValue(least, `must be at least ${least}`));

const flags = v.object({
  rounds: v.optional(v.pipe(wholeNumber(1), v.description("number of times to kill the service")), 20),
  seed: v.optional(v.pipe(wholeNumber(0), v.description("seed of an earlier run, to repeat its choices"))),
  jobs: v.optional(
    v.pipe(wholeNumber(1), v.description("jobs of each agent, or kind of the mix, to start in a round")),
    2,
  ),
  agent: option.list("slug of an agent to test; may be repeated (default: all)", "slug"),
  field: option.list(
    "an input for agents that declare it, name=value or name:=json; may be repeated",
    "name=value",
  ),
  mix: option.flag(
    "test the service itself, with built-in agents: children, events, schedules, code changes",
  ),
  instances: v.optional(
    v.pipe(
      wholeNumber(2),
      v.description("instances behind a proxy, on a Postgres of their own, in place of one service"),
    ),
  ),
  json: option.flag("print the verdict as JSON"),
});

/**
 * `svc torture`: kills a service repeatedly under load, and checks that its jobs end as if nothing had
 * happened.
 */
export const torture = defineCommand({
  usage: "torture [file]",
  summary: "Kill the service at random under load, and check that no work is lost or duplicated",
  flags,
  examples: [
    "svc torture",
    "svc torture src/controller.ts --rounds 100",
    "svc torture --agent hello --seed 7",
    "svc torture --mix --rounds 200",
    "svc torture --mix --instances 3",
  ],
  async run({ args, flags, context }) {
    if (flags.mix && (args[0] !== undefined || flags.agent.length > 0 || flags.field.length > 0))
      throw new UsageError("--mix has agents of its own", "Omit the file, --agent and --field.");
    // Loaded only here: most commands need nothing of the service's code, and start in half the time without it.
    const { torture: run } = await import("./torture/run-torture.ts");
    const { describeVerdict } = await import("./torture/verdict.ts");
    const verdict = await run({
      file: flags.mix ? undefined : findController(args[0], context.cwd),
      seed: flags.seed ?? Math.floor(Math.random() * 1_000_000),
      ...{
        rounds: flags.rounds,
        jobs: flags.jobs,
        agents: flags.agent,
        fields: flags.field,
        instances: flags.instances,
        context,
      },
    });
    context.print(flags.json ? JSON.stringify(verdict, null, 2) : describeVerdict(verdict));
    return verdict.problems.length === 0 ? 0 : 1;
  },
});
