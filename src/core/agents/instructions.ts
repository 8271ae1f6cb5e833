import * as v from "valibot";
import { checkFirst } from "../base/check-options.ts";
import { isRecord } from "../base/is-record.ts";
import type { NamesOf } from "../base/refuse-unknown.ts";
import {
  type GivenInstructions,
  GivenInstructionsSchema,
  type JobInstructions,
  JobInstructionsSchema,
} from "../models/job-instructions.ts";

/** Limits of each job of an agent. */
export interface AgentInstructions {
  /** Most cases of a job; a start request may only lower it. @default no limit */
  readonly max_cases?: number;
  /** Most seconds of a job; a start request may only lower it. @default no limit */
  readonly max_duration?: number;
  /** What a job may cost; a start request may only lower it. @default no limit */
  readonly max_cost?: number;
  /** Whether a failed case ends the job, where the start request does not say it. @default true */
  readonly stop_on_error?: boolean;
  /** Whether a warning ends the job, where the start request does not say it. @default false */
  readonly stop_on_warning?: boolean;
}

/** What counts where nobody says anything. */
const DEFAULTS = v.parse(JobInstructionsSchema, {});
const NUMBERS = ["max_cases", "max_duration", "max_cost"] as const;
const SWITCHES = ["stop_on_error", "stop_on_warning"] as const;
/** The names of an agent's limits. */
export const INSTRUCTION_NAMES: NamesOf<AgentInstructions> = {
  max_cases: true,
  max_duration: true,
  max_cost: true,
  stop_on_error: true,
  stop_on_warning: true,
};

/** The limits that a handler gives a job; throws a `TypeError` that names the first mistake: none is ignored. */
export function readInstructions(given: unknown): GivenInstructions {
  return checkFirst(GivenInstructionsSchema, given, (problem) => new TypeError(`instructions: ${problem}`));
}

/** What is wrong with an agent's limits; `undefined` if they are valid. */
export function problemOfInstructions(own: unknown): string | undefined {
  if (!isRecord(own)) return "must be an object such as { stop_on_error: false, max_cost: 5 }";
  const [issue] = v.safeParse(JobInstructionsSchema, withoutUndefined(own)).issues ?? [];
  if (!issue) return undefined;
  const name = String(issue.path?.[0]?.key);
  if ((SWITCHES as readonly string[]).includes(name)) return `must have true or false as ${name}`;
  return `must have ${name === "max_cost" ? "a number" : "a whole number"} of at least 0 as ${name}`;
}

/**
 * The limits of a new job: of two numbers the lower one, so that no request gets past its agent's; of switches what the
 * request says. `null` where neither says anything.
 */
export function limitsOf(
  own: AgentInstructions | undefined,
  given: GivenInstructions | null | undefined,
): JobInstructions | null {
  if (!given && !own) return null;
  const merged: Record<string, unknown> = { ...own, ...withoutUndefined(given ?? {}) };
  for (const name of NUMBERS) {
    const both = [own?.[name], given?.[name]].filter((one) => typeof one === "number");
    if (both.length > 0) merged[name] = Math.min(...both);
  }
  return { ...DEFAULTS, ...merged };
}

function withoutUndefined(values: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
