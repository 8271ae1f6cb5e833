import { type ChildProcess, spawn } from "node:child_process";
import { dirname, relative } from "node:path";
import { defineCommand } from "./command.ts";
import type { CliContext } from "./context.ts";
import { findController, loadController } from "./load-controller.ts";
import { runService } from "./run-service.ts";
import { ListenFlagsSchema } from "./start.ts";
import { listenForStop } from "./stop-signal.ts";
import { watchTree } from "./watch-tree.ts";

/** Distinguishes the process that serves from the one that watches. */
const WORKER = "SVC_DEV_WORKER";

/** `svc dev`: runs the service and restarts it when a source file changes; jobs resume where they were. */
export const dev = defineCommand({
  usage: "dev [file]",
  summary: "Run the service and restart it when its files change",
  flags: ListenFlagsSchema,
  examples: ["svc dev", "svc dev src/controller.ts --port 8100"],
  async run({ args, flags, context }) {
    const file = findController(args[0], context.cwd);
    if (context.env[WORKER] === undefined) return superviseWorker(file, context);
    // The channel may have closed before this listener was added: a file was saved while the worker started.
    if (process.connected === false) return 0;
    process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
    const { serveWithListhen } = await import("./serve-with-listhen.ts");
    const service = await loadController(file, context.cwd);
    return runService(service, { ...flags, serve: serveWithListhen }, context);
  },
});

/** Keeps one worker running: the next one starts when the last has released the port and the data folder. */
async function superviseWorker(file: string, context: CliContext): Promise<number> {
  const folder = dirname(file);
  let worker: ChildProcess | undefined;
  let changed = false;
  let stopped = false;
  let wake = (): void => {};
  const interrupt = (): void => {
    if (worker) endWorker(worker);
    wake();
  };
  const stop = listenForStop(() => {
    stopped = true;
    interrupt();
  });
  const unwatch = watchTree(folder, {
    onChange: (name) => {
      context.note(`${name} changed, restarting`);
      changed = true;
      interrupt();
    },
    onTrouble: (where, error) => context.note(`${where} cannot be watched: ${describeCode(error)}`),
  });
  context.note(`Watching ${relative(context.cwd, folder) || "."} for changes`);

  let exitCode = 0;
  while (!stopped) {
    changed = false;
    worker = startWorker(context);
    exitCode = await exitOf(worker);
    worker = undefined;
    if (stopped || changed) continue;
    context.note("The service has stopped. It restarts at the next change.");
    await new Promise<void>((done) => {
      wake = done;
    });
  }
  unwatch();
  stop.release();
  return exitCode;
}

function describeCode(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" ? "raise fs.inotify.max_user_watches (ENOSPC)" : (code ?? message);
}

function exitOf(worker: ChildProcess): Promise<number> {
  return new Promise((done) => worker.once("exit", (code) => done(code ?? 1)));
}

/** In its own process group, so that Ctrl-C reaches it only through this process. */
function startWorker(context: CliContext): ChildProcess {
  const [program, ...args] = context.self as [string, ...string[]];
  return spawn(program, [...args, ...context.argv], {
    cwd: context.cwd,
    env: { SERVICE_STRICT_STEPS: "true", ...context.env, [WORKER]: "1" },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    detached: true,
  });
}

/** A worker shuts down gracefully when its channel closes, even if this process was killed. */
function endWorker(worker: ChildProcess): void {
  if (worker.connected) worker.disconnect();
}
