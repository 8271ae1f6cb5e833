import type { AgentSettings } from "../../agents/agent-settings.ts";
import type { Logger } from "../../base/log.ts";
import type { StartTimer } from "../../base/timer.ts";
import type { Joins } from "../../store/store.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Scheduler } from "../queue/scheduler.ts";

interface PausesParts {
  readonly settings: AgentSettings;
  readonly clock: () => Date;
  readonly startTimer: StartTimer;
  readonly log: Logger;
  readonly scheduler: Scheduler;
  readonly cluster: Cluster;
}

/** The agents that start no new jobs: those that are paused, and all of them before a deployment. */
export class Pauses {
  readonly #parts: PausesParts;
  #drainedUntil: string | undefined;
  #stopTimer: () => void = () => {};

  constructor(parts: PausesParts) {
    this.#parts = parts;
  }

  /** Until when no agent starts new jobs, ISO 8601. */
  get drainedUntil(): string | undefined {
    return this.#drainedUntil;
  }

  /** New jobs of these agents wait, from now on those of no other. */
  async read(joins?: Joins): Promise<void> {
    const { settings, clock, startTimer, scheduler, log } = this.#parts;
    const now = clock();
    const { slugs, drainedUntil } = await settings.paused(now, joins);
    this.#drainedUntil = drainedUntil;
    scheduler.pauseAgents(slugs, drainedUntil !== undefined);
    this.#stopTimer();
    if (drainedUntil === undefined || scheduler.isClosed) return;
    this.#stopTimer = startTimer(Date.parse(drainedUntil) - now.getTime(), () =>
      this.read().catch((error: unknown) => {
        if (!scheduler.isClosed) log.warn("which agents are paused could not be read", { error });
      }),
    );
  }

  /** Reads them after this instance has changed them; the others read them too. */
  async changed(): Promise<void> {
    await this.read();
    this.#parts.cluster.offer(["agents"]);
  }

  close(): void {
    this.#stopTimer();
  }
}
