import type { DeployTools } from "../../../deploy/tools.ts";

export interface PollOptions<T> {
  readonly tools: Pick<DeployTools, "sleep" | "report">;
  /** Milliseconds between two reads. */
  readonly every: number;
  read(): Promise<T>;
  done(value: T): boolean;
  /** How far it is, such as `deployment in_progress`: reported in lower case whenever that is another one. */
  stage?(value: T): string | undefined;
}

/** Reads until it is done. The step's own time limit bounds the wait and interrupts the sleep. */
export async function pollUntil<T>({ tools, every, read, done, stage }: PollOptions<T>): Promise<T> {
  for (let shown = ""; ; await tools.sleep(every)) {
    const value = await read();
    const now = stage?.(value) ?? shown;
    if (now !== shown) tools.report(now.toLowerCase().replaceAll("_", " "));
    shown = now;
    if (done(value)) return value;
  }
}

/** Reads until there is nothing left. */
export async function pollGone({ tools, every, read }: Omit<PollOptions<unknown>, "done">): Promise<void> {
  await pollUntil({ tools, every, read, done: (left) => left === undefined });
}
