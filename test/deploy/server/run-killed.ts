import { spawn } from "node:child_process";
import type { ServerChild } from "./child.ts";

/** Runs a deployment in a process of its own; resolves with its signal, and the number of lines of its journal. */
export async function runKilled(
  child: string,
  options: ServerChild,
): Promise<{ signal: string | null; lines: number }> {
  const running = spawn(process.execPath, [child], { stdio: ["pipe", "pipe", "inherit"] });
  running.stdin.end(JSON.stringify(options));
  let out = "";
  running.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  return new Promise((resolve) =>
    running.once("close", (_, signal) => resolve({ signal, lines: Number(out.trim()) })),
  );
}
