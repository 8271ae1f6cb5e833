#!/usr/bin/env node
import "./cli/require-node.ts";
import { PLATFORMS } from "./cli/deploy/built-in.ts";
import { knownWidth } from "./cli/known-width.ts";
import { main } from "./cli/main.ts";
import { createPaint } from "./cli/paint.ts";

const { stdin, stdout, stderr } = process;
// A copy: a service that is created in this process removes its secrets from the environment.
const env = { ...process.env };
const argv = process.argv.slice(2);
for (const stream of [stdout, stderr]) knownWidth(stream);
const screen = { write: (text: string) => void stderr.write(text), columns: () => stderr.columns };

// The reader of the output may stop early, as `head` does: a command then ends quietly. A service keeps running,
// whatever becomes of its output: its disk may be full.
const isService = ["start", "dev", "control"].includes(argv[0] ?? "");
for (const stream of [stdout, stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (isService) return;
    if (error.code !== "EPIPE") throw error;
    process.exit();
  });
}

const onIdle = (): void => {
  process.stderr.write(
    `Error: "svc ${argv[0] ?? ""}" has nothing left to wait for, and did not finish\n  This is a fault: nothing is known of its result.\n`,
  );
  process.exitCode = 1;
};
// Without it, Node ends a process in silence whose command waits for something that cannot come.
process.once("beforeExit", onIdle);

const code = await main(argv, {
  argv,
  self: [process.execPath, ...process.execArgv, process.argv[1]!],
  cwd: process.cwd(),
  env,
  print: (line) => void stdout.write(`${line}\n`),
  write: (text) => void stdout.write(text),
  note: (line) => void stderr.write(`${line}\n`),
  paint: { print: createPaint(stdout, env), note: createPaint(stderr, env) },
  interactive: stdin.isTTY === true && stdout.isTTY === true && !env.CI,
  terminal: stderr.isTTY && !env.CI ? screen : undefined,
  platforms: PLATFORMS,
});

// Handles that an agent left open must not keep a finished command alive; pending output is flushed first.
await new Promise((done) => stdout.write("", done));
process.exit(code);
