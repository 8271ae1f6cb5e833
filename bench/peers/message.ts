import type { ChildProcess } from "node:child_process";

/** The next message of a forked process; rejects if it ends instead. */
export function message(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const gone = (code: number | null) => reject(new Error(`The process ended with ${code}`));
    child.once("exit", gone);
    child.once("message", (told) => {
      child.off("exit", gone);
      resolve(told);
    });
  });
}
