import type { AgentRegistry } from "../../agents/registry.ts";
import type { Logger } from "../../base/log.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { CheckedCode } from "../../models/own-rows.ts";
import type { Store } from "../../store/store.ts";
import type { Scheduler } from "../queue/scheduler.ts";
import type { Waker } from "../queue/waker.ts";
import type { HeldTries } from "./held-tries.ts";

/** Suspended jobs, as a condition of a list. */
const SUSPENDED = { wake_at: { gte: 0 } };
/** Jobs that are read together: a database touches four pages for each. */
const PAGE = 20;
/** Checks of the same code that the end of the process may cut off. */
const MOST_TRIES = 3;

interface Parts {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly store: Store;
  readonly log: Logger;
  readonly scheduler: Scheduler;
  readonly tries: HeldTries;
  readonly waker: Waker;
}

/**
 * Finds the suspended jobs that do not fit new code: a start leaves such jobs alone, so each would be found when its time,
 * answer or event comes. Each is replayed once after a change of the code, without side effects; one that does not fit is
 * resumed, which holds it. A start with the same code reads no job.
 */
export class CodeChecks {
  readonly #parts: Parts;
  /** Agents that have no suspended jobs, and of whose code nothing is noted. */
  readonly #unnoted = new Set<string>();
  #isStarted = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Checks all agents, once in a process. */
  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#inBackground(this.#checkAll());
  }

  /** A job of an agent was suspended: under the code that is here. */
  suspended(slug: string): void {
    if (this.#unnoted.delete(slug)) this.#inBackground(this.#note(slug, { tries: 0, is_done: true }));
  }

  #inBackground(work: Promise<unknown>): void {
    const { log, scheduler } = this.#parts;
    work.catch((error: unknown) => {
      if (!scheduler.isClosed)
        log.error("suspended jobs could not be checked against the code: the next start checks them", {
          error,
        });
    });
  }

  async #checkAll(): Promise<void> {
    const { agents, jobs, log, scheduler, store } = this.#parts;
    await scheduler.whenResumed();
    const [{ items }, counts] = await Promise.all([
      store.table("CheckedCode").list({ limit: Number.POSITIVE_INFINITY, joins: "now" }),
      jobs.countBy("agent_name", { where: SUSPENDED, joins: "now" }),
    ]);
    const noted = new Map(items.map((row) => [row.id, row]));
    for (const { slug } of agents.list()) {
      const isEmpty = (counts[slug] ?? 0) === 0;
      const last = noted.get(slug);
      if (isEmpty && !last) this.#unnoted.add(slug);
      if (isEmpty && !last) continue;
      const known = last?.code === this.#codeOf(slug) ? last : undefined;
      if (known?.is_done) continue;
      const tries = (known?.tries ?? 0) + 1;
      if (!isEmpty && tries > MOST_TRIES) {
        const why = `the process ended at each of ${MOST_TRIES} tries`;
        log.error("suspended jobs are not checked against the code", { agent: slug, problem: why });
        continue;
      }
      if (!isEmpty) await this.#note(slug, { tries, is_done: false });
      if (isEmpty || (await this.#check(slug))) await this.#note(slug, { tries, is_done: true });
    }
  }

  /** Resolves with whether all of them were checked. */
  async #check(slug: string): Promise<boolean> {
    const { agents, jobs, scheduler, tries, waker } = this.#parts;
    const resumed: Promise<boolean>[] = [];
    // Found once: each page of a list would count all of them.
    const ids = await jobs.ids({ where: { ...SUSPENDED, agent_name: slug }, sort: "created_at" });
    for (let at = 0; at < ids.length && !scheduler.isClosed; at += PAGE) {
      await Promise.all(
        ids.slice(at, at + PAGE).map(async (id) => {
          const job = await jobs.find(id);
          if (!job?.suspended || job.code_fingerprint === agents.of(job)?.code) return;
          if (await tries.wouldHold(job)) resumed.push(waker.wake(job));
        }),
      );
    }
    await Promise.all(resumed);
    return !scheduler.isClosed;
  }

  #codeOf(slug: string): string {
    return this.#parts.agents
      .versions(slug)
      .map(({ code }) => code)
      .join();
  }

  async #note(slug: string, state: Pick<CheckedCode, "tries" | "is_done">): Promise<void> {
    const row = { id: slug, code: this.#codeOf(slug), ...state };
    await this.#parts.store.transaction(async (tx) => {
      if (await tx.get("CheckedCode", slug)) await tx.change("CheckedCode", slug, () => row);
      else await tx.insert("CheckedCode", row);
    });
  }
}
