import { DeployError } from "./errors.ts";

/** Milliseconds after its last renewal in which a run relies on its lock. */
export const LEASE = 4 * 60_000;
/** Between two renewals. */
const BEAT = 60_000;
/** After one that failed. */
const RETRY = 15_000;

/** Keeps the lock of a run that ends by itself within minutes, so that nobody waits long for a run that is dead. */
export interface LockKeeper {
  /** Starts to renew a lock that was asked for at this time. */
  keep(renew: () => Promise<boolean>, asked: Date): void;
  /**
   * Renews it if it is time to; rejects once it is lost. Called before each change, and while a run waits: a machine that slept
   * must change nothing before it knows.
   */
  beat(): Promise<void>;
  stop(): void;
}

/** `lose` ends what the run is doing. */
export function createLockKeeper(now: () => Date, lose: (error: DeployError) => void): LockKeeper {
  let renew: (() => Promise<boolean>) | undefined;
  let renewed = 0;
  let due = 0;
  let isRunning = false;
  let lost: DeployError | undefined;
  let timer: NodeJS.Timeout | undefined;

  const isOver = () => now().getTime() - renewed > LEASE;

  async function attempt(again: () => Promise<boolean>): Promise<void> {
    const begun = now().getTime();
    try {
      if (!(await again())) return end("Another run has taken it over");
      renewed = begun;
      due = begun + BEAT;
    } catch {
      // No response, or none in time: the lease says how long that may last.
      due = now().getTime() + RETRY;
    }
  }

  function end(detail: string): void {
    lost ??= new DeployError("interrupted", "Stopped: this run no longer has the lock of its target", {
      detail,
      fix: "Run the same command again: it continues where this one stopped, once nobody else deploys",
    });
    clearInterval(timer);
    lose(lost);
  }

  async function beat(): Promise<void> {
    if (renew === undefined) return;
    // Somebody else may have it by now: renewing it would take it from them.
    if (lost === undefined && isOver()) end("It could not be renewed in time");
    // A renewal may pause itself, so nobody waits for one that is under way.
    if (lost === undefined && !isRunning && now().getTime() >= due) {
      isRunning = true;
      await attempt(renew).finally(() => {
        isRunning = false;
      });
      if (isOver()) end("It could not be renewed in time");
    }
    if (lost !== undefined) throw lost;
  }

  return {
    beat,
    keep(how, asked) {
      renew = how;
      renewed = asked.getTime();
      due = renewed + BEAT;
      timer = setInterval(() => void beat().catch(() => undefined), RETRY);
      timer.unref();
    },
    stop() {
      clearInterval(timer);
      renew = undefined;
    },
  };
}
