import { fork } from "node:child_process";
import { once } from "node:events";
import { message } from "../peers/message.ts";

/** Runs a service in a process of its own until it has reported what it measured, then closes it. */
export async function askService<T>(file: string, args: readonly string[]): Promise<T> {
  const child = fork(file, args, { execArgv: ["--expose-gc"] });
  try {
    const measured = (await message(child)) as T;
    const ended = once(child, "exit");
    child.send("close");
    await ended;
    return measured;
  } finally {
    child.kill();
  }
}
