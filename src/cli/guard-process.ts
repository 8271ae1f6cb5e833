import { describeError } from "../core/base/error-text.ts";
import type { Logger } from "../core/base/log.ts";

/** Location of this package's code, as it appears in stack traces. */
const OWN = new URL("../", import.meta.url).href;

interface Guarded {
  /** Whether the process is shutting down. */
  isEnding(): boolean;
  /** Called for an exception from this package's own code: the state that it left behind is unknown. */
  fail(): void;
}

/**
 * Keeps one agent's stray errors from ending the jobs of other agents: an unhandled rejection, an exception
 * in a timer or an emitter. `process.exit` cannot be prevented, only logged. The result removes the guard.
 */
export function guardProcess(log: Logger, { isEnding, fail }: Guarded): () => void {
  const onRejection = (error: unknown): void => log.error("unhandled promise rejection", { error });
  const onException = (error: unknown): void => {
    if (!isOwn(error)) {
      log.error("uncaught exception; the service keeps running", { error });
      return;
    }
    log.error("fatal error, shutting down; jobs resume at the next start", { error });
    fail();
  };
  const onExit = (code: number): void => {
    if (isEnding()) return;
    const { stack } = new Error("process.exit was called");
    log.error("an agent's code ended the process; jobs resume at the next start", { code, stack });
    // Process managers that restart failed services treat 0 as success.
    process.exitCode = code || 1;
  };
  process.on("unhandledRejection", onRejection);
  process.on("uncaughtException", onException);
  process.on("exit", onExit);
  return () => {
    process.off("unhandledRejection", onRejection);
    process.off("uncaughtException", onException);
    process.off("exit", onExit);
  };
}

/** Whether it was thrown here, not in an agent or one of its libraries. */
function isOwn(error: unknown): boolean {
  const thrownAt = describeError(error).match(/^\s+at .*$/m)?.[0];
  return thrownAt?.includes(OWN) ?? false;
}
