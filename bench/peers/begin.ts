import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { message } from "./message.ts";

const BENCH = fileURLToPath(new URL("..", import.meta.url));

export interface Begun extends AsyncDisposable {
  readonly child: ChildProcess;
  /** Its first message. */
  readonly told: unknown;
}

/** Forks a script, named by its place below `bench` or by its whole path, which sends a message once it is ready, and ends on the message `end`. */
export async function begin(
  path: string,
  args: readonly string[] = [],
  variables: Readonly<Record<string, string>> = {},
): Promise<Begun> {
  // What names the code is not hashed from the sources of this repository.
  const env = { ...process.env, SERVICE_BUILD: "bench", ...variables };
  const child = fork(resolve(BENCH, path), args, { stdio: "inherit", env });
  const told = await message(child);
  return {
    ...{ child, told },
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, "exit");
      child.send("end");
      await gone;
    },
  };
}
