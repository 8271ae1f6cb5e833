import { type ChildProcess, spawn } from "node:child_process";
import { dirname, relative } from "node:path";
import { defineCommand } from "./command.ts";
import type { CliContext } from "./context.ts";
import { findController, loadController } from "./load-controller.ts";
import { runService } from "./run-service.ts";
import { ListenFlagsSchema } from "./start.ts";
import { listenForStop } from "./stop-signal.ts";
import { watchTree } from "./watch-tree.ts";

/** Tells the process that serves from the one that watches. */
const WORKER = "SVC_DEV_WORKER";

/** `svc dev`: runs the service and starts it anew when a source file changes; jobs go on where they were. */
export const dev = defineCommand({
  usage: "dev [file]",
  summary: "Run the service and restart it when its files change",
  flags: ListenFlagsSchema,
  examples: ["svc dev", "svc dev src/controller.ts --port 8100"],
  async run({ args, flags, context }) {
    const file = findController(args[0], context.cwd);
    if (context.env[WORKER] === undefined) return superviseWorker(file, context);
    process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
    const { serveWithListhen } = await import("./serve-with-listhen.ts");
    const service = await loadController(file, context.cwd);
    return runService(service, { ...flags, serve: serveWithListhen }, context);
  },
});

/** Keeps one worker running: the next one starts when the last has let go of the port and the data folder. */
async function superviseWorker(file: string, context: CliContext): Promise<number> {
  const folder = dirname(file);
  let worker: ChildProcess | undefined;
  let exitCode = 0;
  let wanted = true;
  const ended = new Promise<void>((done) => {
    const begin = (): void => {
      wanted = true;
      worker = startWorker(context);
      worker.once("exit", (code) => {
        worker = undefined;
        exitCode = code ?? 1;
        if (stopping) return done();
        if (!wanted) return begin();
        context.note("The service has ended. It starts again at the next change.");
      });
    };
    let stopping = false;
    const stop = listenForStop(() => {
      stopping = true;
      if (worker) endWorker(worker);
      else done();
    });
    const unwatch = watchTree(folder, (changed) => {
      if (stopping) return;
      context.note(`${changed} changed: restarting`);
      wanted = false;
      if (worker) endWorker(worker);
      else begin();
    });
    context.note(`Watching ${relative(context.cwd, folder) || "."} for changes`);
    begin();
    void stop.received.then(unwatch);
  });
  await ended;
  return exitCode;
}

/** In a process group of its own, so that Ctrl-C reaches it only through us. */
function startWorker(context: CliContext): ChildProcess {
  const [program, ...args] = context.self as [string, ...string[]];
  return spawn(program, [...args, ...context.argv], {
    cwd: context.cwd,
    env: { ...context.env, [WORKER]: "1" },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    detached: true,
  });
}

/** A worker ends gracefully when its channel closes, also when this process was killed. */
function endWorker(worker: ChildProcess): void {
  if (worker.connected) worker.disconnect();
}
