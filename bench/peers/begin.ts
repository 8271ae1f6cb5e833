import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { message } from "./message.ts";

export interface Begun extends AsyncDisposable {
  readonly child: ChildProcess;
  /** Its first message. */
  readonly told: unknown;
}

/** Forks a script below `bench`, which sends a message once it is ready, and ends on the message `end`. */
export async function begin(
  path: string,
  args: readonly string[] = [],
  variables: Readonly<Record<string, string>> = {},
): Promise<Begun> {
  // What names the code is not hashed from the sources of this repository.
  const env = { ...process.env, SERVICE_BUILD: "bench", ...variables };
  const child = fork(fileURLToPath(new URL(`../${path}`, import.meta.url)), args, { stdio: "inherit", env });
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
