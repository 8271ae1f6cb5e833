import { relative } from "node:path";
import * as v from "valibot";
import { option } from "../core/base/option.ts";
import { defineCommand } from "./command.ts";
import { findController } from "./load-controller.ts";

const wholeNumber = (least: number) =>
  v.pipe(v.number(), v.integer("must be a whole number"), v.minValue(least, `must be at least ${least}`));

const flags = v.object({
  rounds: v.optional(v.pipe(wholeNumber(1), v.description("number of times to kill the service")), 20),
  seed: v.optional(v.pipe(wholeNumber(0), v.description("seed of an earlier run, to repeat its choices"))),
  jobs: v.optional(v.pipe(wholeNumber(1), v.description("jobs of each agent to start in a round")), 2),
  agent: option.list("slug of an agent to test; may be repeated (default: all)", "slug"),
  field: option.list(
    "an input for agents that declare it, name=value or name:=json; may be repeated",
    "name=value",
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
  ],
  async run({ args, flags, context }) {
    // Loaded only here: most commands need nothing of the service's code, and start in half the time without it.
    const [{ torture: run }, { OwnAgents }, { describeVerdict }] = await Promise.all([
      import("./torture/run-torture.ts"),
      import("./torture/own-agents.ts"),
      import("./torture/verdict.ts"),
    ]);
    const { cwd } = context;
    const { jobs, agent: agents, field: fields } = flags;
    const file = findController(args[0], cwd);
    const verdict = await run({
      rounds: flags.rounds,
      seed: flags.seed ?? Math.floor(Math.random() * 1_000_000),
      context,
      command: [
        ...["svc torture", relative(cwd, file) || file, `--jobs ${jobs}`],
        ...[...agents.map((slug) => `--agent ${slug}`), ...fields.map((text) => `--field '${text}'`)],
      ].join(" "),
      target: () => new OwnAgents({ file, cwd, jobs, agents, fields }),
    });
    context.print(flags.json ? JSON.stringify(verdict, null, 2) : describeVerdict(verdict));
    return verdict.problems.length === 0 ? 0 : 1;
  },
});
