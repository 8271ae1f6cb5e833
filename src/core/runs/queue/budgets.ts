import { PERIODS } from "../../agents/budget.ts";
import type { AgentRegistry } from "../../agents/registry.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { HookListener } from "../../entities/hooks.ts";
import type { Ledger } from "../../entities/ledger.ts";
import { readSpending } from "../../entities/spending.ts";
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
  readonly hooks: HookListener;
  readonly log: Logger;
  readonly clock: () => Date;
}

/** The budgets of agents: what is spent of them, and the warnings. */
export class Budgets {
  readonly #parts: BudgetParts;
  readonly #stop: () => void;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();

  constructor(parts: BudgetParts) {
    this.#parts = parts;
    const hasAny = parts.agents.list().some(({ definition }) => definition.budget);
    this.#stop = hasAny
      ? parts.hooks.on("run:entry", ({ entry }) => {
          if ("cost" in entry && entry.cost) this.#lookSoon();
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
    const spent = await readSpending(store, slug, today);
    return PERIODS.flatMap((period): BudgetUse[] => {
      const amount = budget[period];
      if (amount === undefined) return [];
      const since = period === "day" ? today : today.slice(0, 7);
      const refuses = budget.refuse === true;
      return [{ agent: slug, period, since, budget: amount, spent: spent[period], refuses }];
    });
  }

  /** Refuses to start a job of an agent whose budget is used up, where the agent wants that. */
  async refuse(slug: string): Promise<void> {
    if (this.#parts.agents.find(slug)?.definition.budget?.refuse !== true) return;
    const used = (await this.of(slug)).findLast(({ spent, budget }) => spent >= budget);
    if (!used) return;
    const { period, budget, spent, since } = used;
    const until = endOf(since);
    const seconds = Math.max(1, Math.ceil((until - this.#parts.clock().getTime()) / 1000));
    throw new ServiceError(
      "rate_limited",
      `Agent "${slug}" has spent ${spent} of ${budget}, its budget of the ${period}: it starts no more jobs`,
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
        this.#parts.log.warn("the budgets of agents could not be checked", { error });
      });
    }, PAUSE).unref();
  }

  async #look(): Promise<void> {
    for (const use of await this.list()) {
      const share = SHARES.findLast((one) => use.spent >= use.budget * one);
      if (share !== undefined) await this.#announce(use, share);
    }
  }

  /** Once for each share, whichever instance does it: the row is stored with the notice. */
  async #announce(use: BudgetUse, share: number): Promise<void> {
    const { store, ledger, log } = this.#parts;
    const id = `${use.agent}/${use.since}/${share}`;
    if (await store.table("BudgetNotice").get(id)) return;
    const isNew = await ledger.write(async (unit) => {
      if (await unit.tx.get("BudgetNotice", id)) return false;
      await unit.tx.insert("BudgetNotice", { id, at: unit.now });
      await unit.emit({ kind: "budget:reached", ...use, share });
      return true;
    });
    if (isNew) log.warn(`an agent has used ${share * 100} % of its budget`, { ...use });
  }
}

/** When a day or month ends, milliseconds since the epoch. */
function endOf(since: string): number {
  if (since.length === 10) return Date.parse(since) + DAY;
  const [year, month] = since.split("-").map(Number);
  return Date.UTC(year!, month!, 1);
}
