import { getOrMake } from "../base/get-or-make.ts";
import type { QueuePosition } from "./runner.ts";

/** Who asks for a place. */
export interface Applicant {
  readonly jobId: string;
  /** The agent's slug. */
  readonly agent: string;
  readonly workspace: string;
}

/** Is notified who gets a slot, and who releases it. */
export interface PlaceWatch {
  began(applicant: Applicant): void;
  rested(applicant: Applicant): void;
}

interface Waiting {
  readonly applicant: Applicant;
  /** Order of arrival. */
  readonly order: number;
  readonly grant: (granted: boolean) => void;
}

interface Share {
  running: number;
  /** When the workspace last got a place, in order of grants. */
  served: number;
}

/**
 * Gives out the places that jobs run in: so many per service and per agent. Those that wait are served in the order
 * in which they came, in turn for each workspace, so that no one's backlog holds up the others.
 */
export class Scheduler {
  readonly #places: number;
  readonly #placesOf: (agent: string) => number;
  readonly #watch: PlaceWatch | undefined;
  readonly #shares = new Map<string, Share>();
  readonly #perAgent = new Map<string, number>();
  /** Waiting applicants by workspace, then by agent. */
  readonly #queues = new Map<string, Map<string, Waiting[]>>();
  /** Jobs that ran before, waited for something, and can continue. */
  #returning: Waiting[] = [];
  #running = 0;
  #queued = 0;
  #counter = 0;
  #isClosed = false;
  /** Seconds that a place was last held, evened out. */
  #turnTime = 1;

  /** Settles when places are given out; there from the beginning where they are. */
  readonly #resumed: Promise<void>;
  #resume: () => void = () => {};
  #isPaused: boolean;

  constructor(options: {
    places: number;
    placesOf: (agent: string) => number;
    watch?: PlaceWatch;
    isPaused?: boolean;
  }) {
    this.#places = options.places;
    this.#placesOf = options.placesOf;
    this.#watch = options.watch;
    this.#isPaused = options.isPaused ?? false;
    this.#resumed = new Promise((resolve) => {
      this.#resume = resolve;
    });
    if (!this.#isPaused) this.#resume();
  }

  /** Whether no place is given out until `resume` is called. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Gives places out, those that wait first. */
  resume(): void {
    this.#isPaused = false;
    this.#resume();
    this.#serve();
  }

  /** Waits until places are given out. */
  whenResumed(): Promise<void> {
    return this.#resumed;
  }

  get running(): number {
    return this.#running;
  }

  get queued(): number {
    return this.#queued;
  }

  /** Whether no more slots will be assigned. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether a place is free for a job of this agent. */
  hasPlace(agent: string): boolean {
    return !this.#isClosed && !this.#isPaused && this.#fits(agent);
  }

  /** Waits for a place for a job that ran before: it comes before those that have not. */
  async takeAgain(applicant: Applicant): Promise<Place> {
    await this.retake(applicant);
    return new Place(this, applicant);
  }

  /** A place, where one is free. */
  tryTake(applicant: Applicant): Place | undefined {
    if (!this.hasPlace(applicant.agent)) return undefined;
    this.#occupy(applicant);
    return new Place(this, applicant);
  }

  /** Waits for a slot; resolves without one if the applicant was cancelled. */
  async take(applicant: Applicant): Promise<Place | undefined> {
    const granted = await new Promise<boolean>((grant) => {
      const byAgent = getOrMake(this.#queues, applicant.workspace, () => new Map<string, Waiting[]>());
      getOrMake(byAgent, applicant.agent, () => []).push({ applicant, grant, order: this.#counter++ });
      this.#queued++;
      this.#serve();
    });
    return granted ? new Place(this, applicant) : undefined;
  }

  /** Takes a job that waits out of the queue. */
  callOff(jobId: string): void {
    for (const [workspace, byAgent] of this.#queues) {
      for (const [agent, waiting] of byAgent) {
        const at = waiting.findIndex((one) => one.applicant.jobId === jobId);
        if (at < 0) continue;
        const [gone] = waiting.splice(at, 1);
        this.#queued--;
        this.#tidy(workspace, agent);
        gone!.grant(false);
        return;
      }
    }
  }

  /** Gives no more places; those that wait stay in the store for the next start. */
  close(): void {
    this.#isClosed = true;
  }

  /** Position of a job in the queue, as far as known. */
  position(jobId: string): QueuePosition | undefined {
    for (const [workspace, byAgent] of this.#queues) {
      for (const waiting of byAgent.values()) {
        const own = waiting.findIndex((one) => one.applicant.jobId === jobId);
        if (own < 0) continue;
        const ahead = this.#ahead(workspace, waiting[own]!.order);
        return { position: ahead + 1, queued: this.#queued };
      }
    }
    return undefined;
  }

  /** Seconds until a place in the queue should be free, for one who found it full. */
  retryAfter(): number {
    return Math.min(Math.max(Math.ceil(this.#turnTime / this.#places), 1), 60);
  }

  /** @internal */
  release(applicant: Applicant, seconds: number): void {
    this.#watch?.rested(applicant);
    this.#turnTime += (seconds - this.#turnTime) / 8;
    this.#running--;
    this.#perAgent.set(applicant.agent, this.#perAgent.get(applicant.agent)! - 1);
    const share = this.#shares.get(applicant.workspace)!;
    share.running--;
    this.#tidy(applicant.workspace, applicant.agent);
    this.#serve();
  }

  /** @internal */
  retake(applicant: Applicant): Promise<boolean> {
    return new Promise((grant) => {
      this.#returning.push({ applicant, grant, order: 0 });
      this.#serve();
    });
  }

  #fits(agent: string): boolean {
    return this.#running < this.#places && (this.#perAgent.get(agent) ?? 0) < this.#placesOf(agent);
  }

  #occupy(applicant: Applicant): void {
    const { agent, workspace } = applicant;
    this.#watch?.began(applicant);
    this.#running++;
    this.#perAgent.set(agent, (this.#perAgent.get(agent) ?? 0) + 1);
    const share = getOrMake(this.#shares, workspace, () => ({ running: 0, served: 0 }));
    share.running++;
    share.served = ++this.#counter;
  }

  #serve(): void {
    while (!this.#isClosed && !this.#isPaused && this.#running < this.#places) {
      const next = this.#nextReturning() ?? this.#nextWaiting();
      if (!next) return;
      this.#occupy(next.applicant);
      next.grant(true);
    }
  }

  #nextReturning(): Waiting | undefined {
    if (this.#returning.length === 0) return undefined;
    const at = this.#returning.findIndex((one) => this.#fits(one.applicant.agent));
    return at < 0 ? undefined : this.#returning.splice(at, 1)[0];
  }

  /** The workspace with the fewest running jobs comes first, then the one that was served longest ago. */
  #nextWaiting(): Waiting | undefined {
    let best: { waiting: Waiting; running: number; served: number } | undefined;
    for (const [workspace, byAgent] of this.#queues) {
      const { running = 0, served = 0 } = this.#shares.get(workspace) ?? {};
      for (const [agent, [waiting]] of byAgent) {
        if (!waiting || !this.#fits(agent)) continue;
        const order =
          best && (running - best.running || served - best.served || waiting.order - best.waiting.order);
        if (order === undefined || order < 0) best = { waiting, running, served };
      }
    }
    if (!best) return undefined;
    const { applicant } = best.waiting;
    this.#queues.get(applicant.workspace)!.get(applicant.agent)!.shift();
    this.#queued--;
    this.#tidy(applicant.workspace, applicant.agent);
    return best.waiting;
  }

  #ahead(workspace: string, order: number): number {
    const before = (byAgent: Map<string, Waiting[]>) =>
      [...byAgent.values()].reduce(
        (sum, waiting) => sum + waiting.filter((one) => one.order < order).length,
        0,
      );
    const own = before(this.#queues.get(workspace)!);
    let ahead = own;
    for (const [other, byAgent] of this.#queues) {
      if (other === workspace) continue;
      const length = [...byAgent.values()].reduce((sum, waiting) => sum + waiting.length, 0);
      // In turn: as many of theirs as of ours, and one more of those who came before.
      ahead += Math.min(length, own + (before(byAgent) > own ? 1 : 0));
    }
    return ahead;
  }

  #tidy(workspace: string, agent: string): void {
    const byAgent = this.#queues.get(workspace);
    if (byAgent?.get(agent)?.length === 0) byAgent.delete(agent);
    if (byAgent?.size === 0) this.#queues.delete(workspace);
    if (!this.#queues.has(workspace) && this.#shares.get(workspace)?.running === 0)
      this.#shares.delete(workspace);
  }
}

/** A place that one job runs in; given up while the job only waits. */
export class Place {
  readonly #scheduler: Scheduler;
  readonly #applicant: Applicant;
  #isHeld = true;
  #isLeft = false;
  #since = performance.now();
  #retaking: Promise<void> | undefined;

  constructor(scheduler: Scheduler, applicant: Applicant) {
    this.#scheduler = scheduler;
    this.#applicant = applicant;
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#scheduler.release(this.#applicant, (performance.now() - this.#since) / 1000);
  }

  /** Releases it permanently: if it was waited for again, the next one gets it. */
  leave(): void {
    this.#isLeft = true;
    this.release();
  }

  /** Waits for a place again, where it was given up. */
  retake(): Promise<void> {
    if (this.#isHeld) return Promise.resolve();
    this.#retaking ??= this.#scheduler.retake(this.#applicant).then(() => {
      this.#isHeld = true;
      this.#since = performance.now();
      this.#retaking = undefined;
      if (this.#isLeft) this.release();
    });
    return this.#retaking;
  }
}
