import { OptionsError } from "../base/check-options.ts";
import { type NamesOf, unknownOption } from "../base/refuse-unknown.ts";
import { BUDGET_NAMES, problemOfBudget } from "./budget.ts";
import type { AgentDefinition } from "./define-agent.ts";
import { problemOf, RETENTION_NAMES, type RetentionPolicy, withOverride } from "./retention-policy.ts";

/** What the jobs of one workspace may take, and how long they are kept. */
export type WorkspaceOptions = Pick<AgentDefinition, "budget" | "maxConcurrentJobs" | "retention">;

const NAMES: NamesOf<WorkspaceOptions> = { budget: true, maxConcurrentJobs: true, retention: true };
/** Each workspace that has no line of its own, by itself. */
const OTHERS = "*";

/** The limits of workspaces, as the code declares them. */
export class Workspaces {
  /** Whether any of them has a budget, a time to keep jobs, or a limit of slots: where none has, nothing is looked up. */
  readonly haveBudgets: boolean;
  readonly haveRetention: boolean;
  readonly haveSlots: boolean;
  readonly #declared: ReadonlyMap<string, WorkspaceOptions>;

  constructor(options: Readonly<Record<string, WorkspaceOptions>> = {}) {
    for (const [name, one] of Object.entries(options)) check(`workspaces["${name}"]`, one);
    this.#declared = new Map(Object.entries(options));
    const all = [...this.#declared.values()];
    this.haveBudgets = all.some(({ budget }) => budget !== undefined);
    this.haveRetention = all.some(({ retention }) => retention !== undefined);
    this.haveSlots = all.some(({ maxConcurrentJobs }) => maxConcurrentJobs !== undefined);
  }

  /** What a workspace may take; nothing is limited where nothing is said. */
  of(name: string): WorkspaceOptions {
    return this.#declared.get(name) ?? this.#declared.get(OTHERS) ?? {};
  }

  /** How long jobs of a workspace are kept whose agent says this. */
  policyOf(name: string, agent: RetentionPolicy): RetentionPolicy {
    return withOverride(agent, this.of(name).retention);
  }

  /** All times to keep jobs that some workspace has. */
  policies(agent: RetentionPolicy): RetentionPolicy[] {
    return [agent, ...[...this.#declared.values()].map(({ retention }) => withOverride(agent, retention))];
  }
}

function check(option: string, one: WorkspaceOptions): void {
  if (typeof one !== "object" || one === null)
    throw new OptionsError(`Option ${option} must be an object such as { maxConcurrentJobs: 4 }`);
  const { budget, maxConcurrentJobs: most, retention } = one;
  const unknown =
    unknownOption(one, NAMES) ??
    unknownOption(budget ?? {}, BUDGET_NAMES) ??
    unknownOption(retention ?? {}, RETENTION_NAMES);
  if (unknown !== undefined) throw new OptionsError(`Cannot use option ${option}: ${unknown}`);
  const wrongBudget = budget === undefined ? undefined : problemOfBudget(budget);
  if (wrongBudget !== undefined) throw new OptionsError(`Option ${option}.budget ${wrongBudget}`);
  const wrongTime = retention === undefined ? undefined : problemOf(retention);
  if (wrongTime !== undefined)
    throw new OptionsError(`Option ${option}.retention${wrongTime.replace(/^(?!\.)/, " ")}`);
  if (most !== undefined && !(Number.isInteger(most) && most >= 1))
    throw new OptionsError(`Option ${option}.maxConcurrentJobs must be a whole number of 1 or more`);
}
