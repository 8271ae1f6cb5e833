import { setTimeout as delay } from "node:timers/promises";
import type { ServiceClient } from "../job/service-client.ts";
import type { ServiceProcess } from "./service-process.ts";

/** What is tortured: a service, or several instances of one. */
export interface Subject {
  start(): Promise<ServiceClient>;
  /** Interrupts it somehow; resolves once it responds again, with how often processes were killed. */
  strike(options: StrikeOptions): Promise<{ readonly client: ServiceClient; readonly kills: number }>;
  /** Starts it again, with other code if there is some. */
  restart(): Promise<ServiceClient>;
  /** Waits until nothing is being done to it. */
  rest?(): Promise<void>;
  /** Ends all its processes. */
  kill(): Promise<void>;
}

export interface StrikeOptions {
  readonly random: () => number;
  /** Changes the code that processes have which start from now on. */
  readonly deploy: () => void;
}

/** How many kills come between two changes of the code, on average. */
const KILLS_PER_DEPLOY = 3;
/** Longest time before a start is interrupted, milliseconds. */
const LONGEST_CUT_START = 900;

/** One service, which is killed and started again. */
export class OneService implements Subject {
  readonly #service: ServiceProcess;

  constructor(service: ServiceProcess) {
    this.#service = service;
  }

  start(): Promise<ServiceClient> {
    return this.#service.start();
  }

  async restart(): Promise<ServiceClient> {
    await this.#service.kill();
    return this.#service.start();
  }

  async strike({ random, deploy }: StrikeOptions): ReturnType<Subject["strike"]> {
    const service = this.#service;
    let kills = 1;
    await service.kill();
    if (random() * KILLS_PER_DEPLOY < 1) deploy();
    // A start can be interrupted too, in the middle of resuming jobs.
    if (random() < 0.2) {
      await service.begin();
      await delay(random() * LONGEST_CUT_START);
      await service.kill();
      kills++;
    }
    return { client: await service.start(), kills };
  }

  kill(): Promise<void> {
    return this.#service.end();
  }
}
