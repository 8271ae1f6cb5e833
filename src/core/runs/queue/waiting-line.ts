import { getOrMake } from "../../base/get-or-make.ts";
import { Heap, type HeapEntry } from "../../base/heap.ts";

/** What a workspace has of the slots. */
export interface Share {
  readonly running: number;
  /** When it last got a slot, in order of grants. */
  readonly served: number;
}

/** Something that only so many may use at the same time; those who cannot are passed over. */
export interface Gate {
  readonly isOpen: boolean;
}

/** One that waits. */
export interface Waiting {
  readonly jobId: string;
  /** The agent's slug. */
  readonly agent: string;
  readonly workspace: string;
  /** Order of arrival. */
  readonly order: number;
  /** Where it has to wait for its turn besides, such as a concurrency key. */
  readonly gate?: Gate | undefined;
}

/** Those of one workspace that wait for one agent and one gate, in order of arrival. */
interface Queue<W> extends HeapEntry {
  readonly bin: Bin<W>;
  readonly gate: Gate | undefined;
  /** Those before index `gone` no longer wait: a long list is not moved up for each. */
  waiting: W[];
  gone: number;
}

/** The queues of one workspace and agent. */
interface Bin<W> extends HeapEntry {
  readonly workspace: string;
  readonly agent: string;
  readonly share: Share;
  readonly queues: Map<Gate | undefined, Queue<W>>;
  /** Those whose gate is open: the one whose first came earliest is first. */
  readonly open: Heap<Queue<W>>;
}

/**
 * Those that wait, so that the next one is found however many wait for something that they cannot have: the workspace
 * with the fewest running jobs comes first, then the one that was served longest ago, then who came first. One grant
 * costs the logarithm of the number of queues, and an agent each.
 */
export class WaitingLine<W extends Waiting> {
  readonly #shareOf: (workspace: string) => Share;
  /** By workspace, then by agent. */
  readonly #bins = new Map<string, Map<string, Bin<W>>>();
  /** By agent: its bins that have an open queue. */
  readonly #open = new Map<string, Heap<Bin<W>>>();
  readonly #byGate = new Map<Gate, Set<Queue<W>>>();
  /** A job may wait twice: it was asked to run again. */
  readonly #byJob = new Map<string, W[]>();
  /** How many wait. Only the line changes it. */
  size = 0;

  constructor(shareOf: (workspace: string) => Share) {
    this.#shareOf = shareOf;
  }

  add(one: W): void {
    const bins = getOrMake(this.#bins, one.workspace, () => new Map<string, Bin<W>>());
    const bin = getOrMake(bins, one.agent, () => this.#makeBin(one));
    const queue = getOrMake(bin.queues, one.gate, () => this.#makeQueue(bin, one.gate));
    // One that was let in and had to come back has the order that it had.
    const at = countUntil(queue, one.order);
    queue.waiting.splice(queue.gone + at, 0, one);
    getOrMake(this.#byJob, one.jobId, () => []).push(one);
    this.size++;
    if (at === 0) this.#queueChanged(queue);
  }

  /** Takes out the next one of those whose agent `fits`. */
  next(fits: (agent: string) => boolean): W | undefined {
    let best: Bin<W> | undefined;
    for (const [agent, bins] of this.#open) {
      if (bins.first && (!best || isBefore(bins.first, best)) && fits(agent)) best = bins.first;
    }
    const one = best?.open.first && headOf(best.open.first);
    return one && this.#take(one);
  }

  /** Takes a job out. */
  remove(jobId: string): W | undefined {
    const one = this.#byJob.get(jobId)?.[0];
    return one && this.#take(one);
  }

  /** A workspace has more or fewer running jobs than before. */
  shareChanged(workspace: string): void {
    for (const bin of this.#bins.get(workspace)?.values() ?? []) this.#binChanged(bin);
  }

  /** A gate has opened, or is closed. */
  gateChanged(gate: Gate): void {
    for (const queue of this.#byGate.get(gate) ?? []) this.#queueChanged(queue);
  }

  /** Whether anyone waits behind a gate. */
  hasWaitingAt(gate: Gate): boolean {
    return this.#byGate.has(gate);
  }

  hasWaitingOf(workspace: string): boolean {
    return this.#bins.has(workspace);
  }

  /** How many are served before a job, as far as is known: those behind a closed gate may come later. */
  ahead(jobId: string): number | undefined {
    const one = this.#byJob.get(jobId)?.[0];
    if (!one) return undefined;
    const own = this.#countBefore(one.workspace, one);
    let ahead = own;
    for (const [workspace, bins] of this.#bins) {
      if (workspace === one.workspace) continue;
      let waiting = 0;
      for (const queue of queuesOf(bins)) if (isPassable(queue, one)) waiting += lengthOf(queue);
      // In turn: as many of theirs as of ours, and one more of those who came before.
      ahead += Math.min(waiting, own + (this.#countBefore(workspace, one) > own ? 1 : 0));
    }
    return ahead;
  }

  /** How many wait behind the same gate and have come before a job; `undefined` unless its gate is closed. */
  aheadAtGate(jobId: string): number | undefined {
    const one = this.#byJob.get(jobId)?.[0];
    if (!one?.gate || one.gate.isOpen) return undefined;
    let ahead = 0;
    for (const queue of this.#byGate.get(one.gate)!) ahead += countUntil(queue, one.order);
    return ahead;
  }

  #countBefore(workspace: string, one: W): number {
    let count = 0;
    for (const queue of queuesOf(this.#bins.get(workspace)!))
      if (isPassable(queue, one)) count += countUntil(queue, one.order);
    return count;
  }

  #take(one: W): W {
    const bin = this.#bins.get(one.workspace)!.get(one.agent)!;
    const queue = bin.queues.get(one.gate)!;
    const at = countUntil(queue, one.order);
    if (at === 0) queue.gone++;
    else queue.waiting.splice(queue.gone + at, 1);
    if (queue.gone > 100 && 2 * queue.gone > queue.waiting.length) {
      queue.waiting = queue.waiting.slice(queue.gone);
      queue.gone = 0;
    }
    this.size--;
    const same = this.#byJob.get(one.jobId)!;
    if (same.length === 1) this.#byJob.delete(one.jobId);
    else same.splice(same.indexOf(one), 1);
    if (at === 0) this.#queueChanged(queue);
    if (lengthOf(queue) === 0) this.#drop(queue);
    return one;
  }

  #drop(queue: Queue<W>): void {
    const { bin, gate } = queue;
    bin.queues.delete(gate);
    if (gate) {
      const queues = this.#byGate.get(gate)!;
      queues.delete(queue);
      if (queues.size === 0) this.#byGate.delete(gate);
    }
    if (bin.queues.size > 0) return;
    const bins = this.#bins.get(bin.workspace)!;
    bins.delete(bin.agent);
    if (bins.size === 0) this.#bins.delete(bin.workspace);
  }

  #queueChanged(queue: Queue<W>): void {
    const { bin, gate } = queue;
    if (lengthOf(queue) > 0 && gate?.isOpen !== false) bin.open.put(queue);
    else bin.open.remove(queue);
    this.#binChanged(bin);
  }

  #binChanged(bin: Bin<W>): void {
    const bins = getOrMake(this.#open, bin.agent, () => new Heap<Bin<W>>(isBefore));
    if (bin.open.first) bins.put(bin);
    else bins.remove(bin);
    if (!bins.first) this.#open.delete(bin.agent);
  }

  #makeBin({ workspace, agent }: W): Bin<W> {
    const open = new Heap<Queue<W>>((a, b) => headOf(a)!.order < headOf(b)!.order);
    return { at: -1, workspace, agent, share: this.#shareOf(workspace), queues: new Map(), open };
  }

  #makeQueue(bin: Bin<W>, gate: Gate | undefined): Queue<W> {
    const queue: Queue<W> = { at: -1, bin, gate, waiting: [], gone: 0 };
    if (gate) getOrMake(this.#byGate, gate, () => new Set()).add(queue);
    return queue;
  }
}

function isBefore<W extends Waiting>(one: Bin<W>, other: Bin<W>): boolean {
  const order = one.share.running - other.share.running || one.share.served - other.share.served;
  return order < 0 || (order === 0 && firstOf(one) < firstOf(other));
}

function firstOf<W extends Waiting>({ open }: Bin<W>): number {
  return headOf(open.first!)!.order;
}

function* queuesOf<W>(bins: ReadonlyMap<string, Bin<W>>): Iterable<Queue<W>> {
  for (const { queues } of bins.values()) yield* queues.values();
}

function isPassable<W>({ gate }: Queue<W>, one: Waiting): boolean {
  return gate === one.gate || gate?.isOpen !== false;
}

function headOf<W>({ waiting, gone }: Queue<W>): W | undefined {
  return waiting[gone];
}

function lengthOf<W>({ waiting, gone }: Queue<W>): number {
  return waiting.length - gone;
}

/** How many came before an order of arrival. */
function countUntil<W extends Waiting>({ waiting, gone }: Queue<W>, order: number): number {
  let [from, to] = [gone, waiting.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (waiting[middle]!.order < order) from = middle + 1;
    else to = middle;
  }
  return from - gone;
}
