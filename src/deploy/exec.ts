import { spawn } from "node:child_process";
import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { DeployError } from "./errors.ts";
import type { ExecInput, ExecOptions, ExecResult } from "./tools.ts";

/** How much of a program's output is kept; its end shows the cause. */
const KEEP = 16 * 1024 * 1024;
const KILL_AFTER = 5000;

/** The shell of this machine, with the arguments before a command that `deploy.yaml` has as text. */
export const SHELL: readonly string[] =
  process.platform === "win32" ? ["cmd.exe", "/d", "/s", "/c"] : ["/bin/sh", "-c"];

/** Runs a program without a shell. Its output is collected, and passed on line by line while it runs. */
export function run(
  command: string,
  args: readonly string[],
  options: Omit<ExecOptions, "env"> & { readonly env: Readonly<Record<string, string | undefined>> },
): Promise<ExecResult> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const child = spawn(command, [...args], {
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      env: { ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
      shell: false,
    });
    let killer: NodeJS.Timeout | undefined;
    const onAbort = () => {
      child.kill("SIGTERM");
      killer = setTimeout(() => {
        child.kill("SIGKILL");
        // A program that it has started, and that is still there, has them too.
        for (const stream of [child.stdout, child.stderr]) stream.destroy();
      }, KILL_AFTER);
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    const out = collect(child.stdout, options.onLine);
    const err = collect(child.stderr, options.onLine);
    child.once("error", (error: NodeJS.ErrnoException) => {
      signal?.removeEventListener("abort", onAbort);
      reject(startError(command, error, options.cwd));
    });
    let inputFailure: { readonly error: unknown } | undefined;
    child.once("close", (code, killed) => {
      signal?.removeEventListener("abort", onAbort);
      clearTimeout(killer);
      if (signal?.aborted) return reject(signal.reason);
      if (inputFailure) return reject(inputFailure.error);
      resolve({ code: code ?? (killed === null ? 1 : 128), stdout: out.text(), stderr: err.text() });
    });
    writeInput(child.stdin, options.input ?? "").catch((error: unknown) => {
      // A partial input must not count as complete.
      inputFailure = { error };
      child.kill("SIGKILL");
    });
  });
}

/** Writes what a program reads; rejects only if the input itself fails. */
async function writeInput(stdin: Writable, input: ExecInput): Promise<void> {
  // A program that ends without reading its input closes the pipe; its exit code says why.
  stdin.on("error", () => undefined);
  if (typeof input === "string" || input instanceof Uint8Array) {
    stdin.end(input);
    return;
  }
  let failure: { readonly error: unknown } | undefined;
  const source = async function* () {
    try {
      yield* input;
    } catch (error) {
      failure = { error };
      throw error;
    }
  };
  await pipeline(Readable.from(source(), { objectMode: false }), stdin).catch(() => undefined);
  if (failure) throw failure.error;
}

function collect(stream: NodeJS.ReadableStream, onLine: ((line: string) => void) | undefined) {
  let text = "";
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => {
    text += chunk;
    if (text.length > KEEP) text = text.slice(-KEEP / 2);
    if (onLine === undefined) return;
    const lines = (rest + chunk).split(/\r?\n|\r/);
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  });
  stream.on("end", () => {
    if (rest !== "") onLine?.(rest);
  });
  return { text: () => text };
}

function startError(command: string, error: NodeJS.ErrnoException, cwd: string | undefined): DeployError {
  if (error.code === "ENOENT")
    return new DeployError("missing_program", `"${command}" was not found on this machine`, {
      detail: cwd === undefined ? error.message : `${error.message} (in ${cwd})`,
      fix: `Install ${command} and make sure that it is in the PATH`,
      cause: error,
    });
  return new DeployError("failed", `"${command}" could not be started`, {
    detail: error.message,
    cause: error,
  });
}
