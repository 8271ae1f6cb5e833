import { DeployError } from "./errors.ts";

/** Gives each step of a deployment its own time limit, under one signal for Ctrl-C. */
export interface TimeLimits {
  readonly signal: AbortSignal;
  /** Ends whatever is under way, as Ctrl-C does. */
  stop(reason: DeployError): void;
  /** Runs `body` with at most this many seconds; after that its signal fires with `whenOver()` as reason. */
  within<T>(seconds: number, whenOver: () => DeployError, body: () => Promise<T>): Promise<T>;
}

/** Time limits below `outer`, whose reason is turned into a `DeployError`. */
export function createTimeLimits(outer?: AbortSignal): TimeLimits {
  const stopped = new AbortController();
  const onStop = () => stopped.abort(interrupted());
  if (outer?.aborted) onStop();
  outer?.addEventListener("abort", onStop, { once: true });
  let current: AbortSignal = stopped.signal;

  return {
    get signal() {
      return current;
    },
    stop: (reason) => stopped.abort(reason),
    async within(seconds, whenOver, body) {
      const limit = new AbortController();
      const timer = setTimeout(() => limit.abort(whenOver()), seconds * 1000);
      const before = current;
      current = AbortSignal.any([before, limit.signal]);
      const { signal } = { signal: current };
      try {
        return await body();
      } catch (error) {
        // Whatever error a library makes of the abort, people must see the reason.
        throw signal.aborted ? signal.reason : error;
      } finally {
        clearTimeout(timer);
        current = before;
      }
    },
  };
}

function interrupted(): DeployError {
  return new DeployError("interrupted", "Stopped on request", {
    fix: "Run the same command again: it continues where this one stopped",
  });
}
