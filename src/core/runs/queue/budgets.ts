import { hash } from "node:crypto";
import { type BudgetOptions, PERIODS, type Period } from "../../agents/budget.ts";
import type { AgentRegistry } from "../../agents/registry.ts";
import type { Workspaces } from "../../agents/workspaces.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { HookListener } from "../../entities/hooks.ts";
import type { Ledger, Unit } from "../../entities/ledger.ts";
import { readSpending, readWorkspaceSpending } from "../../entities/spending.ts";
import type { BudgetUse } from "../../models/spending.ts";
import type { Store } from "../../store/store.ts";

/** Shares of a budget at which a warning is sent. */
const SHARES = [0.8, 1] as const;
/** Milliseconds after which what was spent is checked, together with what was spent meanwhile. */
const PAUSE = 1000;
const DAY = 86_400_000;

interface BudgetParts {
  readonly store: Store;
  readonly ledger: Ledger;
  readonly agents: AgentRegistry;
  readonly workspaces: Workspaces;
  readonly hooks: HookListener;
  readonly log: Logger;
  readonly clock: () => Date;
}

/** What is spent of a budget. */
type Use = Pick<BudgetUse, "period" | "since" | "budget" | "spent">;

/** The budgets of agents and workspaces: what is spent of them, and the warnings. */
export class Budgets {
  readonly #parts: BudgetParts;
  readonly #stop: () => void;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();
  /** Jobs that have spent something since the last look; `undefined` for any. */
  #spenders: Set<string> | undefined;

  constructor(parts: BudgetParts) {
    this.#parts = parts;
    const hasAny =
      parts.workspaces.haveBudgets || parts.agents.list().some(({ definition }) => definition.budget);
    this.#stop = hasAny
      ? parts.hooks.on("run:entry", ({ job_id, entry }) => {
          if (!("cost" in entry && entry.cost)) return;
          this.#spenders?.add(job_id);
          this.#lookSoon();
        })
      : () => {};
    // What was spent right before a crash.
    if (hasAny) this.#lookSoon();
  }

  /** The budgets of all agents, in the order of the agents. */
  async list(): Promise<BudgetUse[]> {
    const uses = await Promise.all(this.#parts.agents.list().map(({ slug }) => this.of(slug)));
    return uses.flat();
  }

  /** The budgets of an agent. */
  async of(slug: string): Promise<BudgetUse[]> {
    const { agents, store, clock } = this.#parts;
    const budget = agents.find(slug)?.definition.budget;
    if (!budget) return [];
    const today = clock().toISOString().slice(0, 10);
    const refuses = budget.refuse === true;
    const uses = usesOf(budget, await readSpending(store, slug, today), today);
    return uses.map((use) => ({ agent: slug, ...use, refuses }));
  }

  /** Refuses to start a job of an agent whose budget is used up, where the agent wants that. */
  async refuse(slug: string): Promise<void> {
    if (this.#parts.agents.find(slug)?.definition.budget?.refuse !== true) return;
    this.#refuseUsed(`Agent "${slug}"`, await this.of(slug));
  }

  /** Refuses to start a job of a workspace whose budget is used up, where that is wanted. */
  async refuseIn(workspace: string): Promise<void> {
    const { workspaces, store, clock } = this.#parts;
    const { budget } = workspaces.of(workspace);
    if (budget?.refuse !== true) return;
    const today = clock().toISOString().slice(0, 10);
    const spent = (await readWorkspaceSpending(store, today, workspace)).get(workspace);
    if (spent) this.#refuseUsed(`Workspace "${workspace}"`, usesOf(budget, spent, today));
  }

  #refuseUsed(what: string, uses: readonly Use[]): void {
    const used = uses.findLast(({ spent, budget }) => spent >= budget);
    if (!used) return;
    const { period, budget, spent, since } = used;
    const until = endOf(since);
    const seconds = Math.max(1, Math.ceil((until - this.#parts.clock().getTime()) / 1000));
    throw new ServiceError(
      "rate_limited",
      `${what} has spent ${spent} of ${budget}, its budget of the ${period}: it starts no more jobs`,
      {
        detail: `Its next ${period} begins at ${new Date(until).toISOString()}. To start more, raise its budget.`,
        headers: { "Retry-After": String(seconds) },
      },
    );
  }

  /** Stops looking. */
  async close(): Promise<void> {
    this.#stop();
    clearTimeout(this.#timer);
    await this.#looking;
  }

  #lookSoon(): void {
    if (this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#looking = this.#look().catch((error: unknown) => {
        this.#parts.log.warn("the budgets could not be checked", { error });
      });
    }, PAUSE).unref();
  }

  async #look(): Promise<void> {
    for (const use of await this.list()) {
      const share = shareOf(use);
      if (share !== undefined) await this.#announce(use, share);
    }
    const { workspaces, store, clock } = this.#parts;
    if (!workspaces.haveBudgets) return;
    const spenders = this.#spenders;
    this.#spenders = new Set();
    const today = clock().toISOString().slice(0, 10);
    try {
      for (const sums of await this.#readSpent(spenders, store, today))
        for (const [workspace, spent] of sums) {
          const { budget } = workspaces.of(workspace);
          for (const use of budget ? usesOf(budget, spent, today) : []) await this.#warnOf(workspace, use);
        }
    } catch (error) {
      this.#spenders = undefined;
      throw error;
    }
  }

  /** What the workspaces of these jobs have spent, or at the start all: a platform has many, of which few spend in a second. */
  async #readSpent(jobIds: ReadonlySet<string> | undefined, store: Store, today: string) {
    if (jobIds === undefined) return [await readWorkspaceSpending(store, today)];
    const jobs = await Promise.all([...jobIds].map((id) => store.table("Job").peek(id)));
    const names = new Set(jobs.flatMap((job) => job?.job_context.workspace_id ?? []));
    return Promise.all([...names].map((name) => readWorkspaceSpending(store, today, name)));
  }

  /** Once for each share, whichever instance does it. */
  async #warnOf(workspace: string, use: Use): Promise<void> {
    const share = shareOf(use);
    if (share === undefined) return;
    const id = `workspace ${hash("sha256", workspace, "base64url")}/${use.since}/${share}`;
    if (await this.#isFirst(id, async () => {}))
      this.#parts.log.warn(`a workspace has used ${share * 100}% of its budget`, { workspace, ...use });
  }

  /** Once for each share, whichever instance does it: the row is stored with the notice. */
  async #announce(use: BudgetUse, share: number): Promise<void> {
    const id = `${use.agent}/${use.since}/${share}`;
    const isNew = await this.#isFirst(id, async (unit) => {
      await unit.emit({ kind: "budget:reached", ...use, share });
    });
    if (isNew) this.#parts.log.warn(`an agent has used ${share * 100}% of its budget`, { ...use });
  }

  /** Whether a notice was not sent before; stores that it is, with what `also` does. */
  async #isFirst(id: string, also: (unit: Unit) => Promise<void>): Promise<boolean> {
    const { store, ledger } = this.#parts;
    if (await store.table("BudgetNotice").get(id)) return false;
    return ledger.write(async (unit) => {
      if (await unit.tx.get("BudgetNotice", id)) return false;
      await unit.tx.insert("BudgetNotice", { id, at: unit.now });
      await also(unit);
      return true;
    });
  }
}

function usesOf(budget: BudgetOptions, spent: Readonly<Record<Period, number>>, today: string): Use[] {
  return PERIODS.flatMap((period) => {
    const amount = budget[period];
    if (amount === undefined) return [];
    return [
      { period, since: period === "day" ? today : today.slice(0, 7), budget: amount, spent: spent[period] },
    ];
  });
}

/** The greatest share at which a warning is sent that is reached. */
function shareOf({ spent, budget }: Use): number | undefined {
  return SHARES.findLast((one) => spent >= budget * one);
}

/** When a day or month ends, milliseconds since the epoch. */
function endOf(since: string): number {
  if (since.length === 10) return Date.parse(since) + DAY;
  const [year, month] = since.split("-").map(Number);
  return Date.UTC(year!, month!, 1);
}
