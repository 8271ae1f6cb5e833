import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { sharedRsaKey } from "../../src/testing/rsa-key.ts";
import { findBuild } from "../_built.ts";
import { once } from "../_once.ts";

export const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));
const CLI = join(REPOSITORY, "dist/cli.js");
if (!existsSync(CLI)) throw new Error("The command line is not built: run npm run build (npm test does it)");

/** Of all services that a run of the tests starts: to make one takes longer than to start a service. */
const RSA_KEY = await readFile(
  join(await once("rsa-key", (folder) => writeFile(join(folder, "key.pem"), sharedRsaKey())), "key.pem"),
  "utf8",
);

/** Milliseconds for a test that starts several processes on a busy machine. */
export const PROCESS_TIME = 120_000;

/** What a finished command left behind. */
export interface Finished {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command under way. */
export interface Running {
  readonly process: ChildProcess;
  readonly finished: Promise<Finished>;
  /** All that it has printed so far, on both streams. */
  output(): string;
  /** Resolves with the match once the output holds it; rejects when the command ends without. */
  prints(pattern: RegExp, occurrence?: number): Promise<RegExpMatchArray>;
}

export interface SvcOptions {
  readonly cwd: string;
  readonly env?: Record<string, string>;
  /** Another copy of the command line. */
  readonly command?: readonly string[];
}

/** Begins a command; it is killed when the test ends. */
export function beginSvc(args: readonly string[], { cwd, env, command }: SvcOptions): Running {
  const [program, ...before] = command ?? [process.execPath, commandLineOf(cwd, args)];
  const child = spawn(program!, [...before, ...args], {
    cwd,
    env: { ...cleanEnvironment(), ...env },
    stdio: ["ignore", "pipe", "pipe"],
    // A group of its own, so that what npx starts ends with it.
    detached: true,
  });
  let isOver = false;
  onTestFinished(() => {
    if (child.pid !== undefined && !isOver) process.kill(-child.pid, "SIGKILL");
  });
  const told = { stdout: "", stderr: "", both: "" };
  const listeners = new Set<() => void>();
  for (const name of ["stdout", "stderr"] as const) {
    child[name]!.setEncoding("utf8").on("data", (text: string) => {
      told[name] += text;
      told.both += text;
      for (const listener of listeners) listener();
    });
  }
  const finished = new Promise<Finished>((done, fail) => {
    child.once("error", fail);
    child.once("close", (code, signal) => {
      isOver = true;
      done({ code, signal, stdout: told.stdout, stderr: told.stderr });
    });
  });
  return {
    process: child,
    finished,
    output: () => told.both,
    prints: (pattern, occurrence = 1) =>
      new Promise((found, fail) => {
        const look = (): void => {
          const match = [...told.both.matchAll(new RegExp(pattern, "g"))][occurrence - 1];
          if (match) found(match);
        };
        listeners.add(look);
        look();
        void finished.then((end) =>
          fail(new Error(`It ended with ${end.code ?? end.signal}:\n${told.both}`)),
        );
      }),
  };
}

/** Runs a command to its end. */
export function svc(args: readonly string[], options: SvcOptions): Promise<Finished> {
  return beginSvc(args, options).finished;
}

/** The command line of the package that the project has; of the repository, for a controller that is there. */
function commandLineOf(cwd: string, args: readonly string[]): string {
  const own = join(cwd, "node_modules/agent-control-service/dist/cli.js");
  return existsSync(own) && !args.some((arg) => arg.startsWith(REPOSITORY)) ? realpathSync(own) : CLI;
}

/** A new folder with these files, in which the package and valibot can be imported; it goes when the test ends. */
export async function project(
  files: Readonly<Record<string, string>> = {},
  /** Of the package. */
  from?: string,
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "svc-test-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  await mkdir(join(folder, "node_modules"));
  await symlink(from ?? (await findBuild()), join(folder, "node_modules/agent-control-service"));
  for (const name of ["valibot", "zod", "arktype"])
    await symlink(join(REPOSITORY, "node_modules", name), join(folder, "node_modules", name));
  for (const [name, text] of Object.entries({ "package.json": '{ "type": "module" }', ...files })) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return folder;
}

/** Where the service of a folder listens, and its key. */
export async function access(folder: string): Promise<{ url: string; key: string }> {
  const read = async (name: string) => (await readFile(join(folder, "data", name), "utf8")).trim();
  return { url: await read("address"), key: await read("api-key") };
}

/** The settings of the user who runs the tests must not reach the commands. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(SERVICE_|SVC_|VITEST|NODE_ENV$|PORT$|HOST$)/.test(name),
  );
  return { ...Object.fromEntries(kept), CI: "1", SERVICE_RSA_PRIVATE_KEY: RSA_KEY };
}
