import type { ChildProcess } from "node:child_process";

/** What a process that was forked says next; rejects where it ends instead. */
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
