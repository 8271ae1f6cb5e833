import { readIsolation } from "../../agents/isolate-options.ts";
import type { HostedAgent } from "../../agents/registry.ts";
import { AgentProcess, ProcessEndedError } from "./agent-process.ts";
import { moduleOf } from "./kept-apart.ts";

/** Processes of an agent that wait for its next job, and milliseconds that they do. */
const MOST_IDLE = 4;
const PATIENCE = 60_000;
/** Rehearsals that have a process at the same time. */
const MOST_REHEARSING = 4;

/** The processes of the agents that are isolated: each runs one job, and then the next one. */
export class AgentProcesses {
  /** The file that `svc` runs. */
  readonly #controller: string | undefined;
  readonly #idle = new Map<string, AgentProcess[]>();
  readonly #all = new Set<AgentProcess>();
  readonly #isOffline: boolean;
  readonly #hidden: readonly string[];
  #calls = 0;
  #isClosed = false;
  #rehearsing = 0;
  readonly #queue: (() => void)[] = [];

  /** Where they are offline, they have no network once their agents are loaded; what is `hidden` they cannot read. */
  constructor(
    controller: string | undefined,
    { isOffline = false, hidden }: { readonly isOffline?: boolean; readonly hidden: readonly string[] },
  ) {
    this.#controller = controller;
    this.#hidden = hidden;
    this.#isOffline = isOffline;
  }

  /** A process in which the agent is loaded. */
  async take(agent: HostedAgent): Promise<AgentProcess> {
    const idle = this.#idle.get(agent.slug) ?? [];
    for (let known = idle.pop(); known; known = idle.pop()) if (!known.isOver) return known;
    const made = this.#start(agent);
    await made.ready;
    return made;
  }

  /**
   * Gives a rehearsal a process of its own, which ends with it: what a handler does that is left behind there can disturb
   * no job.
   */
  async rehearse<T>(agent: HostedAgent, work: (process: AgentProcess) => Promise<T>): Promise<T> {
    while (this.#rehearsing >= MOST_REHEARSING)
      await new Promise<void>((resolve) => void this.#queue.push(resolve));
    this.#rehearsing++;
    // A command that only waits for such a process would end meanwhile.
    const keepAlive = setInterval(() => {}, PATIENCE);
    let made: AgentProcess | undefined;
    try {
      made = this.#start(agent);
      await made.ready;
      return await work(made);
    } finally {
      clearInterval(keepAlive);
      if (made) this.end(made, "is not needed after a rehearsal");
      this.#rehearsing--;
      this.#queue.shift()?.();
    }
  }

  /** Keeps a process for the agent's next job. */
  release(one: AgentProcess): void {
    one.onMessage = () => {};
    one.onEnd = () => void this.#all.delete(one);
    const idle = this.#idle.get(one.slug) ?? [];
    if (one.isOver || this.#isClosed || idle.length >= MOST_IDLE) {
      this.end(one, "is no longer needed");
      return;
    }
    this.#idle.set(one.slug, [...idle, one]);
    setTimeout(() => {
      const waiting = this.#idle.get(one.slug) ?? [];
      const at = waiting.indexOf(one);
      if (at < 0) return;
      waiting.splice(at, 1);
      this.end(one, "is no longer needed");
    }, PATIENCE).unref();
  }

  /** Ends a process immediately. */
  end(one: AgentProcess, why: string): void {
    this.#all.delete(one);
    one.kill(why);
  }

  /** A number for a method's call. */
  nextCall(): number {
    return ++this.#calls;
  }

  close(): void {
    this.#isClosed = true;
    for (const one of this.#all) one.kill("is no longer needed: the service has closed");
    this.#all.clear();
  }

  #start({ slug, definition }: HostedAgent): AgentProcess {
    if (this.#isClosed) throw new ProcessEndedError("The service has closed");
    const isolation = readIsolation(definition.isolate)!;
    const module = moduleOf(isolation, this.#controller);
    if (module === undefined) {
      throw new Error(
        `Agent "${slug}" is isolated, and it is not known which file it is in: run the service with svc start, or give the agent isolate: { module: new URL("./agent.js", import.meta.url) }`,
      );
    }
    const parameters = (definition.parameters ?? []).map(({ name }) => name);
    const made = new AgentProcess({
      ...{ slug, isolation, parameters, module },
      ...{ isOffline: this.#isOffline, hidden: this.#hidden },
    });
    this.#all.add(made);
    return made;
  }
}
