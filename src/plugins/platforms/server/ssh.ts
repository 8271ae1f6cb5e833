import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { PassThrough } from "node:stream";
import { run } from "../../../deploy/exec.ts";
import type { DeployTools, ExecInput, ExecResult } from "../../../deploy/tools.ts";
import { dockerError } from "./docker-error.ts";
import type { ServerFlags } from "./flags.ts";
import { sshError } from "./ssh-error.ts";

export interface ScriptOptions {
  /** Standard input of the script: the only way for a secret. */
  readonly input?: ExecInput;
  readonly onLine?: (line: string) => void;
  readonly signal?: AbortSignal;
}

/** A machine that is reached with the ssh program of this one: its configuration, agent and known hosts count. */
export interface Ssh {
  /** As the user wrote it. */
  readonly host: string;
  /**
   * Runs a POSIX shell script there, with these values as `$1`, `$2` and so on. Resolves with its exit code;
   * rejects if the machine cannot be reached.
   */
  script(text: string, values?: readonly string[], options?: ScriptOptions): Promise<ExecResult>;
  /** Runs a script like `script`; its output appears in no log. */
  silent(text: string, values?: readonly string[]): Promise<ExecResult>;
  /** Runs a script like `script` and yields what it writes, whatever bytes; throws with `what` if it fails. */
  stream(what: string, text: string, values?: readonly string[]): AsyncIterable<Uint8Array>;
  /** The program and its arguments that run a script like `script`, with the input and output of who starts it. */
  words(text: string, values: readonly string[], terminal: boolean): Promise<readonly string[]>;
  /** The name or address behind `host`, from the ssh configuration. */
  address(): Promise<string>;
  close(): Promise<void>;
}

/** What ssh itself ends with when it fails. */
const SSH_FAILED = 255;
const READY = "svc-ready";
/** Milliseconds in which the connection ends by itself. */
const CLOSING = 3000;

/** Opens one connection when it is first needed; all scripts share it, and it ends with this process. */
export function openSsh(
  tools: DeployTools,
  flags: Pick<ServerFlags, "host" | "sshConfig" | "acceptNewHost">,
  cwd: string,
): Ssh {
  const { host } = flags;
  const options = [
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=15",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=4",
    ...(flags.acceptNewHost ? ["-o", "StrictHostKeyChecking=accept-new"] : []),
    ...(flags.sshConfig === undefined ? [] : ["-F", resolve(cwd, flags.sshConfig)]),
  ];
  let master: Promise<Master> | undefined;

  /** Options of a script: those of the shared connection, where this system can share one. */
  async function shared(): Promise<readonly string[]> {
    if (process.platform === "win32") return options;
    master ??= startMaster(tools, options, host);
    const { socket, alive } = await master.catch((error: unknown) => {
      master = undefined;
      throw error;
    });
    if (alive()) return [...options, "-o", "ControlMaster=no", "-o", `ControlPath=${socket}`];
    await close();
    return shared();
  }

  async function close(): Promise<void> {
    const ending = master;
    master = undefined;
    await (await ending?.catch(() => undefined))?.close();
  }

  return {
    host,
    async script(text, values = [], more = {}) {
      const result = await tools.exec("ssh", [...(await shared()), "--", host, remote(text, values)], more);
      if (result.code === SSH_FAILED) throw sshError(host, result.stderr);
      return result;
    },
    async silent(text, values = []) {
      const words = [...(await shared()), "--", host, remote(text, values)];
      const result = await run("ssh", words, { env: tools.env, signal: tools.signal });
      if (result.code === SSH_FAILED) throw sshError(host, result.stderr);
      return result;
    },
    async *stream(what, text, values = []) {
      const words = [...(await shared()), "--", host, remote(text, values)];
      const child = spawn("ssh", words, {
        env: { ...tools.env },
        stdio: ["ignore", "pipe", "pipe"],
        signal: tools.signal,
      });
      let stderr = "";
      child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
        stderr = (stderr + chunk).slice(-10_000);
      });
      const ended = new Promise<number>((resolve, reject) => {
        child.once("error", (error) => reject(tools.signal.aborted ? tools.signal.reason : error));
        child.once("close", (code) => resolve(code ?? 1));
      });
      ended.catch(() => undefined);
      try {
        yield* child.stdout;
        const code = await ended;
        if (code === SSH_FAILED) throw sshError(host, stderr);
        if (code !== 0) throw dockerError(what, { code, stdout: "", stderr });
      } finally {
        child.kill();
      }
    },
    async words(text, values, terminal) {
      return ["ssh", ...(await shared()), terminal ? "-tt" : "-T", "--", host, remote(text, values)];
    },
    async address() {
      const { code, stdout, stderr } = await tools.exec("ssh", [...options, "-G", "--", host]);
      const name = /^hostname (\S+)$/m.exec(stdout)?.[1];
      if (code !== 0 || name === undefined) throw sshError(host, stderr);
      return name;
    },
    close,
  };
}

interface Master {
  readonly socket: string;
  alive(): boolean;
  close(): Promise<void>;
}

/**
 * Starts the connection that the scripts share. It is a child of this process and ends when its input does, so it does
 * not outlive a kill.
 */
async function startMaster(tools: DeployTools, options: readonly string[], host: string): Promise<Master> {
  const folder = await mkdtemp(join(tmpdir(), "svc-ssh-"));
  const socket = join(folder, "s");
  const ending = new AbortController();
  let ended = false;
  const input = new PassThrough();
  let isOpen: (ready: boolean) => void = () => {};
  const ready = new Promise<boolean>((resolve) => {
    isOpen = resolve;
  });
  const words = [...options, "-o", "ControlMaster=yes", "-o", `ControlPath=${socket}`, "--", host];
  const running = run("ssh", [...words, `echo ${READY}; exec cat >/dev/null`], {
    env: tools.env,
    signal: ending.signal,
    input,
    onLine: (line) => {
      if (line === READY) isOpen(true);
    },
  }).finally(() => {
    ended = true;
    isOpen(false);
  });
  running.catch(() => undefined);
  const close = async () => {
    input.end();
    // A script that still runs there, after an interruption, would hold the connection until it ends.
    const impatient = setTimeout(() => ending.abort(), CLOSING);
    await running.catch(() => undefined);
    clearTimeout(impatient);
    await rm(folder, { recursive: true, force: true });
  };
  const stop = () => ending.abort(tools.signal.reason);
  tools.signal.addEventListener("abort", stop, { once: true });
  const isReady = await ready;
  tools.signal.removeEventListener("abort", stop);
  if (isReady) return { socket, alive: () => !ended, close };
  await close();
  const { stderr } = await running;
  throw sshError(host, stderr);
}

/** The command line for the login shell of the other side: a script and its values, each one word. */
function remote(script: string, values: readonly string[]): string {
  return ["sh", "-c", script, "svc", ...values].map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
}
