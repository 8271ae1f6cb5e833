import { spawn } from "node:child_process";
import type { ServerChild } from "./child.ts";

/** Runs a deployment in a process of its own; resolves with its signal, and if it finished, the step of each line of its journal. */
export async function runKilled(
  child: string,
  options: ServerChild,
): Promise<{ signal: string | null; lines: number; steps: readonly string[] }> {
  const running = spawn(process.execPath, [child], { stdio: ["pipe", "pipe", "inherit"] });
  running.stdin.end(JSON.stringify(options));
  let out = "";
  running.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  const signal = await new Promise<string | null>((resolve) => running.once("close", (_, by) => resolve(by)));
  const steps = JSON.parse(out || "[]") as string[];
  return { signal, lines: steps.length, steps };
}
