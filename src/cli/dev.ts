import { type ChildProcess, spawn } from "node:child_process";
import { homedir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import * as v from "valibot";
import { option } from "../core/base/option.ts";
import type { Service } from "../core/service/service.ts";
import { defineCommand } from "./command.ts";
import type { CliContext } from "./context.ts";
import { UsageError } from "./errors.ts";
import { findController, loadController } from "./load-controller.ts";
import { ListenFlagsSchema } from "./start.ts";
import { listenForStop } from "./stop-signal.ts";
import { watchTree } from "./watch-tree.ts";

const DevFlagsSchema = v.object({
  ...ListenFlagsSchema.entries,
  open: option.flag("open the service in a browser, signed in"),
  https: option.flag("serve https, with a certificate made for this machine"),
  tlsCert: option.text("certificate of your own, PEM", "file"),
  tlsKey: option.text("its private key, PEM", "file"),
  tunnel: option.flag("let the internet reach the service through a tunnel of Cloudflare"),
  qr: option.flag("show the address as a QR code"),
});

/** Distinguishes the process that serves from the one that watches. */
const WORKER = "SVC_DEV_WORKER";

/** `svc dev`: runs the service and restarts it when a source file changes; jobs resume where they were. */
export const dev = defineCommand({
  usage: "dev [file]",
  summary: "Run the service and restart it when its files change",
  flags: DevFlagsSchema,
  examples: ["svc dev", "svc dev src/controller.ts --port 8100", "svc dev --host 0.0.0.0 --https --qr"],
  async run({ args, flags, context }) {
    const file = findController(args[0], context.cwd);
    const run = context.env[WORKER];
    if ((flags.tlsCert === undefined) !== (flags.tlsKey === undefined)) {
      throw new UsageError(
        "A certificate and its key belong together",
        "Give both --tls-cert and --tls-key.",
      );
    }
    const cacheDir = join(context.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "agent-control-service");
    if (run === undefined) {
      const tunnel = flags.tunnel
        ? await (await import("./dev/accept-tunnel.ts")).acceptTunnel(cacheDir, context)
        : {};
      return superviseWorker(file, { ...context, env: { ...tunnel, ...context.env } });
    }
    // The channel may have closed before this listener was added: a file was saved while the worker started.
    if (process.connected === false) return 0;
    process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
    const { createDevServe } = await import("./dev/serve-dev.ts");
    const service = await loadController(file, context);
    const inCwd = (path?: string) => (path === undefined ? undefined : resolve(context.cwd, path));
    const serve = createDevServe(
      {
        ...flags,
        https: flags.https || flags.tlsCert !== undefined,
        tlsCert: inCwd(flags.tlsCert),
        tlsKey: inCwd(flags.tlsKey),
        // Once, not at each restart.
        open: flags.open && run === "1",
        dataDir: service.options.dataDir,
        cacheDir,
        path: () => (context.interactive || flags.open ? signInPath(service) : "/"),
      },
      context,
    );
    const { host, port } = flags;
    const at = { ...(host !== undefined && { host }), ...(port !== undefined && { port }) };
    return (await import("./run-service.ts")).runService(service, { ...at, serve }, context);
  },
});

/** A path that signs in once, where a plugin makes such links. */
async function signInPath(service: Service): Promise<string> {
  const { SIGN_IN_LINK } = await import("../core/service/tokens.ts");
  try {
    return (await service.get(SIGN_IN_LINK).create("")).url;
  } catch {
    return "/";
  }
}

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
  let runs = 0;
  while (!stopped) {
    changed = false;
    worker = startWorker(context, ++runs);
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
function startWorker(context: CliContext, run: number): ChildProcess {
  const [program, ...args] = context.self as [string, ...string[]];
  return spawn(program, [...args, ...context.argv], {
    cwd: context.cwd,
    env: { SERVICE_STRICT_STEPS: "true", ...context.env, [WORKER]: String(run) },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    detached: true,
  });
}

/** A worker shuts down gracefully when its channel closes, even if this process was killed. */
function endWorker(worker: ChildProcess): void {
  if (worker.connected) worker.disconnect();
}
