import { closeSync, constants, openSync, readFileSync, write, writeSync } from "node:fs";

/** Milliseconds between two signs. */
const PAUSE = 1000;

/** What a process leaves in its data folder for the next one. */
export interface LifeSign {
  /** When the process before this one was last seen alive, ISO 8601; none in a new folder, or one of version 0.1.0. */
  readonly before: string | undefined;
  /** Writes the last sign of life. */
  end(): void;
}

/**
 * Writes the time into a file, each second and at the end, so that the next process knows
 * when the last one stopped running. It is never synced: after a power cut the last signs may be missing, and
 * the run logs still say when something was done last. If the file cannot be written, there is no sign of
 * life, but the service still runs.
 */
export function leaveLifeSigns(path: string, clock: () => Date): LifeSign {
  const before = readSign(path);
  const file = openSign(path);
  if (file === undefined) return { before, end() {} };
  const sign = () => Buffer.from(clock().toISOString());
  let isWriting = false;
  const leave = (): void => {
    if (isWriting) return;
    isWriting = true;
    write(file, sign(), 0, undefined, 0, () => {
      isWriting = false;
    });
  };
  leave();
  const timer = setInterval(leave, PAUSE);
  timer.unref();
  return {
    before,
    end() {
      clearInterval(timer);
      try {
        writeSync(file, sign(), 0, undefined, 0);
      } catch {
        // No space, or no disk: the previous sign of life stays.
      }
      closeSync(file);
    },
  };
}

function readSign(path: string): string | undefined {
  try {
    const text = readFileSync(path, "utf8");
    return Number.isNaN(Date.parse(text)) ? undefined : text;
  } catch {
    return undefined;
  }
}

function openSign(path: string): number | undefined {
  try {
    return openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  } catch {
    return undefined;
  }
}
