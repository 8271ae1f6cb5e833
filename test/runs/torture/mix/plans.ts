/** What a planned job does, in order: `step <name>`, `sleep`, `ask <name>`, or `branch <name>` for a step of new jobs only. */
export type Plan = readonly string[];

/** Kinds of code changes, as what each deploy of the code does; deploys count from 0. */
const PLANS = {
  // The text of the question changes with each deploy, here and in all others.
  reworded: () => ["step one", "ask amount", "step pay"],
  renamed: (deploy) => [deploy % 3 === 2 ? "step uno" : "step one", "sleep", "ask amount", "step pay"],
  added_before: (deploy) => ["step one", ...(deploy % 4 > 1 ? ["step added"] : []), "ask amount", "step pay"],
  added_after: (deploy) => ["step one", "ask amount", "step pay", ...(deploy % 2 ? ["step receipt"] : [])],
  moved: (deploy) => [
    ...(deploy % 2 ? ["step two", "step one"] : ["step one", "step two"]),
    "ask amount",
    "step pay",
  ],
  branch: (deploy) => ["step one", ...(deploy % 4 > 1 ? ["branch audit"] : []), "ask amount", "step pay"],
} as const satisfies Record<string, (deploy: number) => Plan>;

export type PlanKind = keyof typeof PLANS;

export const PLAN_KINDS = Object.keys(PLANS) as PlanKind[];

/** Deploys after which the plans repeat. */
export const PERIOD = 12;

/** What a deploy's code does for a kind of job. */
export function planOf(kind: PlanKind, deploy: number): Plan {
  return PLANS[kind](deploy);
}

/** The versions of agent "Pair" that a deploy has, oldest first. */
export function pairVersions(deploy: number): readonly string[] {
  return deploy === 0 ? ["1.0.0"] : ["1.0.0", "2.0.0"];
}

/** What a version of agent "Pair" does: the versions have no call in common. */
export function pairPlan(version: string): Plan {
  const [major] = version.split(".");
  return [`step look${major}`, `ask amount${major}`, `step pay${major}`];
}

/** Tags of what a family member starts and waits for, and of the child that is expected to fail. */
export function childTags(
  tag: string,
  depth: number,
): { readonly kept: string[]; readonly failing?: string } {
  if (depth === 0) return { kept: [] };
  return { kept: [`${tag}.0`, `${tag}.1`], failing: `${tag}.failing` };
}

/** Ids of the events that a listener is sent, in this order. */
export function eventIds(tag: string): string[] {
  return [1, 2, 3, 4].map((n) => `${tag}-event-${n}`);
}

/** Ids and cron patterns of the schedules; one starts all its jobs, one after another, and one skips times. */
export const SCHEDULES = [
  { id: "each", cron: "*/2 * * * * *", overlap: "allow" },
  { id: "in-turn", cron: "1-59/3 * * * * *", overlap: "queue" },
  { id: "one-at-a-time", cron: "* * * * * *", overlap: "skip" },
] as const;
