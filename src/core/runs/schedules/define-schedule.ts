import * as v from "valibot";
import type { AgentDefinition } from "../../agents/define-agent.ts";
import { describeProblems, fieldsOf } from "../../agents/fields.ts";
import { toSlug } from "../../agents/identity.ts";
import type { AgentRegistry } from "../../agents/registry.ts";
import { checkFirst, OptionsError } from "../../base/check-options.ts";
import { type Duration, isDuration, toMilliseconds } from "../../base/duration.ts";
import {
  type GivenInstructions,
  GivenInstructionsSchema,
  type JobInstructions,
} from "../../models/job-instructions.ts";
import { OVERLAPS } from "../../models/schedule.ts";
import { type CatchUp, PlannedTimes } from "./planned-times.ts";

/** Starts a job of an agent at each time of a cron pattern. */
export interface ScheduleDefinition {
  /**
   * Identifies it in the store: 1 to 100 letters, digits, `.`, `_`, `-`. A schedule with another id is another schedule.
   * @default the agent's slug
   */
  readonly id?: string;
  /** Five fields, or six with seconds first; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. */
  readonly cron: string;
  /** The time zone of `cron`, such as `"Europe/Paris"`. @default "UTC" */
  readonly timezone?: string;
  /** The agent, or its slug. */
  readonly agent: string | AgentDefinition;
  /** Fields of its jobs. @default none */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** Limits of its jobs. @default none */
  readonly instructions?: Partial<JobInstructions>;
  /**
   * What happens at a planned time while an earlier job of this schedule has not ended: `"allow"` starts the job
   * anyway, `"queue"` when the earlier one has ended, `"skip"` starts none, `"cancel"` stops the earlier one first.
   * @default "allow"
   */
  readonly overlap?: "allow" | "queue" | "skip" | "cancel";
  /**
   * Which planned times still become jobs that could not when they were due, as the service was down or paused, its
   * queue was full, or `"queue"` held them back. A duration: each time that is at most so late; where there is none, the
   * latest. `"all"`: each. `"latest"`: the latest. `"none"`: those that are at most a minute late.
   * @default "1d"
   */
  readonly catchUp?: Duration | "all" | "latest" | "none";
}

/** A schedule with all defaults resolved. */
export interface ResolvedSchedule {
  readonly id: string;
  readonly cron: string;
  readonly timezone: string;
  /** The agent's slug. */
  readonly agent: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly instructions: GivenInstructions | null;
  readonly overlap: NonNullable<ScheduleDefinition["overlap"]>;
  readonly catchUp: string;
  readonly times: PlannedTimes;
  readonly policy: CatchUp;
}

const MINUTE = 60_000;
const CATCH_UP_RULE = 'must be a duration such as "6h", or "all", "latest" or "none"';

const DefinitionSchema = v.strictObject({
  id: v.optional(
    v.pipe(
      v.string(),
      v.regex(
        /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/,
        "must be 1 to 100 letters, digits, '.', '_', '-', not starting with a dot",
      ),
    ),
  ),
  cron: v.string(),
  timezone: v.optional(v.string(), "UTC"),
  agent: v.custom<string | AgentDefinition>(
    (agent) => typeof agent === "string" || typeof (agent as AgentDefinition | null)?.name === "string",
    "must be an agent or its slug",
  ),
  fields: v.optional(v.record(v.string(), v.unknown()), {}),
  instructions: v.optional(GivenInstructionsSchema),
  overlap: v.optional(v.picklist(OVERLAPS), "allow"),
  catchUp: v.optional(
    v.custom<NonNullable<ScheduleDefinition["catchUp"]>>(
      (value) => value === "all" || value === "latest" || value === "none" || isDuration(value),
      CATCH_UP_RULE,
    ),
    "1d",
  ),
});

/**
 * Resolves schedules; throws an `OptionsError` that names the first mistake, also where fields do not fit their agent's
 * schema.
 */
export async function resolveSchedules(
  definitions: readonly ScheduleDefinition[],
  agents: AgentRegistry,
): Promise<ResolvedSchedule[]> {
  const schedules: ResolvedSchedule[] = [];
  for (const [at, definition] of definitions.entries()) {
    const one = resolve(definition, at);
    const refuse = (problem: string): never => {
      throw new OptionsError(`Schedule "${one.id}" ${problem}`);
    };
    if (schedules.some(({ id }) => id === one.id)) {
      refuse("is defined twice: give each schedule of an agent an id of its own");
    }
    const agent = agents.find(one.agent);
    if (!agent) {
      const slugs = agents.list().map(({ slug }) => slug);
      return refuse(`is for the agent "${one.agent}", which is not on this service: ${slugs.join(", ")}`);
    }
    const checked = await fieldsOf(agent.definition.methods.job_start).check(one.fields);
    if (!checked.ok) {
      refuse(`has fields that agent "${one.agent}" does not accept: ${describeProblems(checked.problems)}`);
    }
    schedules.push(one);
  }
  return schedules;
}

function resolve(definition: ScheduleDefinition, at: number): ResolvedSchedule {
  const refuse = (problem: string, path: string) =>
    new OptionsError(`Cannot use option schedules: [${at}]${path === "" ? " " : "."}${problem}`);
  const { agent, catchUp, instructions, ...given } = checkFirst(DefinitionSchema, definition, refuse);
  const slug = typeof agent === "string" ? agent : toSlug(agent.name);
  const id = given.id ?? slug;
  return {
    ...given,
    ...{ id, agent: slug, catchUp: String(catchUp), times: readTimes(id, given) },
    instructions: instructions ?? null,
    policy: toPolicy(given.overlap, catchUp),
  };
}

function readTimes(id: string, { cron, timezone }: { cron: string; timezone: string }): PlannedTimes {
  try {
    return new PlannedTimes(cron, timezone);
  } catch (error) {
    throw new OptionsError(`Schedule "${id}": the cron pattern "${cron}" ${wordsOf(error as Error)}`, {
      cause: error,
    });
  }
}

/** What the parser says begins with its own name. */
function wordsOf({ message }: Error): string {
  return /^[a-z]/.test(message) ? message : `is invalid: ${message.replace(/^\w+: /, "")}`;
}

function toPolicy(overlap: string, catchUp: NonNullable<ScheduleDefinition["catchUp"]>): CatchUp {
  if (catchUp === "none") return { window: MINUTE, latest: false };
  // Each would be stopped by the next.
  if (catchUp === "latest" || overlap === "cancel") return { window: 0, latest: true };
  return { window: catchUp === "all" ? Number.POSITIVE_INFINITY : toMilliseconds(catchUp), latest: true };
}
