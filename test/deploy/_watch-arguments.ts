import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { Secrets } from "./_traces.ts";

const CHILD = fileURLToPath(new URL("_arguments-child.mjs", import.meta.url));

interface Seen {
  /** Programs that had a secret in their arguments, and its name: never its value. */
  readonly carriers: readonly string[];
  readonly programs: readonly string[];
}

/** Reads the arguments of all processes of this machine, those in containers too, until it is asked. */
export interface ArgumentsWatch {
  /**
   * Ends it. Throws where a program had one of these secrets in its arguments, and where it has not seen all of `programs`, as
   * then it was not watching.
   */
  expectNone(secrets: Secrets, programs: readonly string[]): Promise<void>;
}

/** Starts to watch; resolves once each process has been read for the first time. */
export async function watchArguments(): Promise<ArgumentsWatch> {
  // In a process of its own: this one blocks while it runs docker.
  const child = spawn(process.execPath, [CHILD], {
    stdio: ["pipe", "pipe", "inherit"],
  }) as never as ChildProcessWithoutNullStreams;
  onTestFinished(() => void child.kill());
  const ended = new Promise((resolve) => child.once("close", resolve));
  let said = "";
  await new Promise<void>((resolve, reject) => {
    child.once("exit", () => reject(new Error("The arguments of processes are not watched")));
    child.stdout.on("data", (chunk: Buffer) => {
      said += chunk.toString();
      if (said.startsWith("watching")) resolve();
    });
  });
  return {
    async expectNone(secrets, programs) {
      child.stdin.end(JSON.stringify(secrets));
      await ended;
      const seen = JSON.parse(said.split("\n")[1] ?? "") as Seen;
      const missed = programs.filter((one) => !seen.programs.includes(one));
      if (missed.length > 0) throw new Error(`No arguments of ${missed.join(", ")} were seen`);
      if (seen.carriers.length > 0) throw new Error(`Arguments with secrets: ${seen.carriers.join(", ")}`);
    },
  };
}
