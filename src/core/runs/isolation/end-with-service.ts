import { type ChildProcess, spawn } from "node:child_process";
import { rm } from "node:fs/promises";

/**
 * Ends a process once this one is gone, also where this one was killed and that one is in an endless loop, and removes its
 * folder once either has ended. A shell does so, whose input ends with this process: a thread of that one would have to be
 * allowed there, and threads are not held by permissions; and what an agent has left in its folder may take long to remove.
 */
export function endWithService(child: ChildProcess, folder: string): void {
  if (child.pid === undefined) {
    removeFolder(folder);
    return;
  }
  const script = 'trap "" INT TERM HUP; read -r line || kill -9 "$1"; command -p rm -rf "$2"';
  const watch = spawn("/bin/sh", ["-c", script, "sh", String(child.pid), folder], {
    stdio: ["pipe", "ignore", "ignore"],
    env: {},
  });
  // An image without a shell: what is in a container ends with it.
  watch.on("error", () => child.once("exit", () => removeFolder(folder)));
  watch.stdin.on("error", () => {});
  watch.unref();
  (watch.stdin as unknown as { unref(): void }).unref();
  child.once("exit", () => watch.stdin.end("ended\n"));
}

/** Removes the folder of a process that has ended. What cannot be removed stays: nobody waits for it. */
export function removeFolder(folder: string): void {
  rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(() => {});
}
