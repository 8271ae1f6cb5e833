import { type ChildProcess, spawn } from "node:child_process";

/**
 * Ends a process once this one is gone, also where this one was killed and that one is in an endless loop: the input of a
 * shell ends then. A thread of its own would have to be allowed there, and threads are not held by permissions.
 */
export function endWithService(child: ChildProcess): void {
  if (child.pid === undefined) return;
  const script = 'trap "" INT TERM HUP; read -r line; kill -9 "$1"';
  const watch = spawn("/bin/sh", ["-c", script, "sh", String(child.pid)], {
    stdio: ["pipe", "ignore", "ignore"],
    env: {},
  });
  // An image without a shell: what is in a container ends with it.
  watch.on("error", () => {});
  watch.stdin.on("error", () => {});
  watch.unref();
  (watch.stdin as unknown as { unref(): void }).unref();
  child.once("exit", () => watch.kill("SIGKILL"));
}
