import { describeError } from "../core/base/error-text.ts";
import type { Logger } from "../core/base/log.ts";

/** Where the code of this package lies, as stacks tell it. */
const OWN = new URL("../", import.meta.url).href;

interface Guarded {
  /** Whether the process is on its way to its end. */
  isEnding(): boolean;
  /** Called where an exception is one of this package's own code: nobody knows what state that left behind. */
  fail(): void;
}

/**
 * Keeps what one agent does in passing from ending the other agents' jobs: a rejection that nobody takes, an exception
 * in a timer or an emitter; `process.exit` cannot be held up, and is told of. The result takes the guard away.
 */
export function guardProcess(log: Logger, { isEnding, fail }: Guarded): () => void {
  const onRejection = (error: unknown): void => log.error("a rejected promise was not handled", { error });
  const onException = (error: unknown): void => {
    if (!isOwn(error)) {
      log.error("an exception was not caught; the service goes on", { error });
      return;
    }
    log.error("the service failed and ends: all jobs go on at the next start", { error });
    fail();
  };
  const onExit = (code: number): void => {
    if (isEnding()) return;
    const { stack } = new Error("process.exit was called");
    log.error("code of an agent ended the process: all jobs go on at the next start", { code, stack });
    // To those who start services again that failed, 0 says that all is done.
    process.exitCode = code || 1;
  };
  // Who reads the log may go away; to tell of it there would never end.
  const ignore = (): void => {};
  for (const stream of [process.stdout, process.stderr]) stream.on("error", ignore);
  process.on("unhandledRejection", onRejection);
  process.on("uncaughtException", onException);
  process.on("exit", onExit);
  return () => {
    for (const stream of [process.stdout, process.stderr]) stream.off("error", ignore);
    process.off("unhandledRejection", onRejection);
    process.off("uncaughtException", onException);
    process.off("exit", onExit);
  };
}

/** Whether it was thrown here, not in an agent or a library of its. */
function isOwn(error: unknown): boolean {
  const thrownAt = describeError(error).match(/^\s+at .*$/m)?.[0];
  return thrownAt?.includes(OWN) ?? false;
}
