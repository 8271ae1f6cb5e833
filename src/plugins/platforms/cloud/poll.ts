import type { DeployTools } from "../../../deploy/tools.ts";

export interface PollOptions<T> {
  readonly tools: Pick<DeployTools, "sleep">;
  /** Milliseconds between two reads. */
  readonly every: number;
  read(): Promise<T>;
  done(value: T): boolean;
}

/** Reads until it is done. The step's own time limit bounds the wait and interrupts the sleep. */
export async function pollUntil<T>({ tools, every, read, done }: PollOptions<T>): Promise<T> {
  for (;;) {
    const value = await read();
    if (done(value)) return value;
    await tools.sleep(every);
  }
}
