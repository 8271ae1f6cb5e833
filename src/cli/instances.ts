import cluster from "node:cluster";
import { setTimeout as delay } from "node:timers/promises";
import { delays } from "../core/base/backoff.ts";
import { createLogger, type LogFormat } from "../core/base/log.ts";
import { Redactor } from "../core/base/redactor.ts";
import { serveWithNode } from "../core/http/serve.ts";
import type { Service } from "../core/service/service.ts";
import { OPTIONS, STORE } from "../core/service/tokens.ts";
import type { CliContext } from "./context.ts";
import { CliError } from "./errors.ts";
import { type RunOptions, runService, type Started, writeAddress } from "./run-service.ts";
import { listenForStop, type StopSignal } from "./stop-signal.ts";

/** Milliseconds before a process that has ended is started again: doubled with each death, up to the longest. */
const PAUSES = delays({ first: 1000, most: 30_000 });
/** Milliseconds after which a process counts as healthy: the next pause is the first one again. */
const HEALTHY = 60_000;
/** Milliseconds after which processes that should end are killed: platforms kill all 10 s after SIGTERM. */
const PATIENCE = 9_800;
/** The key of an instance's message that it has started. */
const STARTED = "svc:started";

/** Whether this process is one of the instances, and not the one that runs them. */
export function isInstance(): boolean {
  return cluster.isWorker;
}

/**
 * Runs the command line again in `count` processes, which take turns at the connections of one port. The first one starts
 * alone: what keeps it from starting ends all of it. One that ends later is started again. Resolves with the exit code
 * when all have ended after a stop signal.
 */
export async function superviseInstances(count: number, context: CliContext): Promise<number> {
  const { SERVICE_LOG_FORMAT: format = context.terminal ? "text" : "json" } = context.env;
  const log = createLogger({
    ...{ level: "info", format: format as LogFormat, redactor: new Redactor(), clock: () => new Date() },
    write: (line) => context.note(line.trimEnd()),
  });
  cluster.setupPrimary({
    ...{ exec: context.self.at(-1)!, execArgv: context.self.slice(1, -1), args: [...context.argv] },
    stdio: ["inherit", "inherit", "inherit", "ipc"],
  });
  const ending = new AbortController();
  let exitCode = 0;
  let address: string | undefined;
  let removeAddress = (): void => {};

  const signalAll = (signal: NodeJS.Signals): void => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill(signal);
  };
  const end = (): void => {
    if (ending.signal.aborted) return;
    ending.abort();
    removeAddress();
    signalAll("SIGTERM");
    setTimeout(() => signalAll("SIGKILL"), PATIENCE).unref();
  };
  const stop = listenForStop(end);

  const hear = ({ banner, address: file, instance }: Started, pid: number | undefined): void => {
    if (address === undefined) context.print(banner);
    log.info("an instance has started", { instance, pid });
    if (address === file.text || ending.signal.aborted) return;
    address = file.text;
    removeAddress = writeAddress(file, log);
  };

  /** One process; resolves when it has ended. */
  const runOne = (place: number, onStarted: () => void): Promise<{ code: number | null; reason: unknown }> =>
    new Promise((resolve) => {
      const worker = cluster.fork({ ...context.env, SVC_PLACE: String(place) });
      let instance: string | undefined;
      worker.on("message", (message) => {
        const started = (message as { [STARTED]?: Started } | null)?.[STARTED];
        if (started === undefined) return;
        instance = started.instance;
        hear(started, worker.process.pid);
        onStarted();
      });
      worker.once("error", (error) => resolve({ code: 1, reason: { error } }));
      worker.once("exit", (code, signal) =>
        resolve({ code, reason: { instance, pid: worker.process.pid, ...(signal ? { signal } : { code }) } }),
      );
    });

  const keepRunning = async (place: number, onFirst: () => void): Promise<void> => {
    let hasStarted = false;
    let deaths = 0;
    while (!ending.signal.aborted) {
      const since = performance.now();
      const { code, reason } = await runOne(place, () => {
        if (!hasStarted) onFirst();
        hasStarted = true;
      });
      if (ending.signal.aborted || !hasStarted) {
        if (code !== 0) exitCode = 1;
        break;
      }
      deaths = performance.now() - since < HEALTHY ? deaths + 1 : 1;
      const pause = PAUSES(deaths - 1);
      log.error("an instance has ended, and is started again", {
        ...(reason as object),
        seconds: pause / 1000,
      });
      await delay(pause, undefined, { signal: ending.signal }).catch(() => {});
    }
    // One that cannot start has said why. Without a signal, the others end because of it.
    end();
  };

  const all = [
    keepRunning(1, () => {
      for (let place = 2; place <= count; place++) all.push(keepRunning(place, () => {}));
    }),
  ];
  for (const one of all) await one;
  stop.release();
  return exitCode;
}

/** Runs the service of one of the processes. */
export async function runInstance(service: Service, at: RunOptions, context: CliContext): Promise<number> {
  const { store, databaseUrl } = service.get(OPTIONS);
  if (store === undefined && databaseUrl === undefined) throw notShared();
  return runService(
    service,
    {
      ...at,
      async serve(app, options) {
        if (!service.get(STORE).isShared) throw notShared();
        return serveWithNode(app, options);
      },
      listen: listenToParent,
      announce(started) {
        process.send?.({ [STARTED]: started });
        return () => {};
      },
    },
    context,
  );
}

function notShared(): CliError {
  return new CliError("Several instances need a store that they share, and this service has one of its own", {
    detail:
      "Set SERVICE_DATABASE_URL to the URL of a Postgres database, such as postgres://user:password@db.example.com:5432/agents, or start one instance: svc start",
  });
}

/**
 * Waits until the parent ends this process, by SIGTERM or by its own end. Ctrl-C and the other signals of a terminal
 * reach all processes, and the parent passes them on.
 */
function listenToParent(onFirst: (signal: string) => void): StopSignal {
  let resolve = (): void => {};
  const received = new Promise<void>((done) => {
    resolve = done;
  });
  let isEnding = false;
  const stop = (signal: string): void => {
    if (isEnding) return;
    isEnding = true;
    onFirst(signal);
    resolve();
  };
  for (const signal of ["SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR2"]) process.on(signal, () => {});
  process.on("SIGTERM", () => stop("SIGTERM"));
  const self = cluster.worker!;
  self.once("disconnect", () => {
    if (isEnding) process.exit(1);
    // Otherwise Node ends the process immediately.
    self.exitedAfterDisconnect = true;
    stop("disconnect");
  });
  return { received, end: () => resolve(), release() {} };
}
