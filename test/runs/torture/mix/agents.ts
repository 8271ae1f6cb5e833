import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  type AgentDefinition,
  type CaseHandle,
  ChildFailedError,
  type ChildHandle,
  defineAgent,
  type JobHandle,
  type ScheduleDefinition,
} from "agent-control-service";
import * as v from "valibot";
import { hash } from "../../../../src/cli/torture/random.ts";
import { childTags, PLAN_KINDS, type Plan, pairPlan, pairVersions, planOf, SCHEDULES } from "./plans.ts";

/** What a step of the mix returns: whose it is, and which process ran it. */
export interface Effect {
  readonly of: string;
  readonly call: string;
  readonly life: number;
}

/** File in the folder of the test with the number of the process, from 1. */
export const LIFE_FILE = "life";
/** File in that folder with a line for each effect that a process really had: its number, job id, step, and the time. */
export const JOURNAL_FILE = "journal";

/** What the controller of a deploy says about its code. */
export interface MixCode {
  readonly deploy: number;
  /** Folder of the test. */
  readonly folder: string;
  /** The time of the service, milliseconds since 1970. @default the system's */
  readonly now?: () => number;
}

const FORM = v.object({ amount: v.number() });

/** The agents and schedules of a deploy of the mix. */
export function mixOf({ deploy, folder, now = Date.now }: MixCode): {
  readonly agents: AgentDefinition[];
  readonly schedules: ScheduleDefinition[];
} {
  const life = Number(readFileSync(join(folder, LIFE_FILE), "utf8"));
  const journal = join(folder, JOURNAL_FILE);
  // Every other deploy changes the code of a version.
  const version = `1.${Math.floor(deploy / 2)}.0`;

  const effect = async (job: JobHandle, of: string, call: string): Promise<Effect> => {
    appendFileSync(journal, `${life}\t${job.id}\t${call}\t${now()}\n`);
    await delay(hash(`${of}/${call}`) % 120);
    return { of, call, life };
  };

  const follow = async (job: JobHandle, tag: string, plan: Plan) => {
    const did: Record<string, Effect> = {};
    let amount: number | undefined;
    let branch: boolean | null = null;
    const item: CaseHandle = await job.openCase({ id: tag, name: tag });
    const step = async (name: string) => {
      did[name] = await item.step(name, () => effect(job, tag, name));
    };
    for (const line of plan) {
      const [what, name = ""] = line.split(" ");
      if (what === "step") await step(name);
      if (what === "sleep") await job.sleep("200ms");
      if (what === "ask") {
        const question = `How much for ${tag}, asks deploy ${deploy}?`;
        ({ amount } = await item.ask(name, { question, fields: FORM }));
      }
      if (what === "branch") {
        branch = job.changed(name);
        if (branch) await step(name);
      }
    }
    await item.close({ amount });
    return { tag, deploy, amount, branch, did };
  };

  const planned = defineAgent({
    name: "Planned",
    version,
    methods: {
      job_start: {
        fields: v.object({ tag: v.string(), kind: v.picklist(PLAN_KINDS) }),
        run: ({ job, fields: { tag, kind } }) => follow(job, tag, planOf(kind, deploy)),
      },
    },
  });

  const pairs = pairVersions(deploy).map((one) =>
    defineAgent({
      name: "Pair",
      version: one,
      methods: {
        job_start: {
          fields: v.object({ tag: v.string() }),
          run: async ({ job, fields: { tag } }) => ({
            ...(await follow(job, tag, pairPlan(one))),
            version: one,
          }),
        },
      },
    }),
  );

  const family = defineAgent({
    name: "Family",
    version,
    methods: {
      job_start: {
        fields: v.object({ tag: v.string(), depth: v.number() }),
        async run({ job, fields: { tag, depth } }): Promise<unknown> {
          await job.step("begin", () => effect(job, tag, "begin"));
          if (tag.endsWith(".failing")) throw new Error(`${tag} fails`);
          const { kept, failing } = childTags(tag, depth);
          const start = (of: string, detached = false) =>
            job.start("family", { tag: of, depth: detached ? 0 : depth - 1 }, { key: of, detached });
          if (depth > 0) await start(`${tag}.detached`, true);
          const failure = failing === undefined ? null : messageOf(start(failing));
          const results = kept.map(async (of) => (await start(of)).result());
          const [failed, ...children] = await Promise.all([failure, ...results]);
          await job.step("end", () => effect(job, tag, "end"));
          return { tag, children, failed };
        },
      },
    },
  });

  const listener = defineAgent({
    name: "Listener",
    version,
    methods: {
      job_start: {
        fields: v.object({ tag: v.string() }),
        async run({ job, fields: { tag } }) {
          const wait = async (key: string) => {
            const since = new Date(0);
            const { id, data } = await job.waitFor("paid", { where: { order: tag }, since, key });
            return { id, data };
          };
          const first = await wait("first");
          await job.step("book", () => effect(job, tag, "book"));
          const both = await Promise.all([wait("second"), wait("third")]);
          const last = await wait("last");
          return { tag, events: [first, ...both, last] };
        },
      },
    },
  });

  const ticker = defineAgent({
    name: "Ticker",
    version,
    methods: { job_start: { run: ({ job }) => job.step("tick", () => effect(job, job.id, "tick")) } },
  });

  return {
    agents: [planned, ...pairs, family, listener, ticker],
    schedules: SCHEDULES.map((one) => ({ ...one, agent: ticker, catchUp: "all" as const })),
  };
}

/** Why a child failed. */
async function messageOf(child: Promise<ChildHandle>): Promise<string> {
  try {
    await (await child).result();
    return "it did not fail";
  } catch (error) {
    if (error instanceof ChildFailedError) return error.message;
    throw error;
  }
}
