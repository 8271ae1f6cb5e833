// Carries a command out on a world and dies at the n-th line of its journal: node child.js <json>
import type { Performance } from "./_perform.ts";
import { perform } from "./_perform.ts";

const { killAt, ...performance } = JSON.parse(process.argv[2] ?? "{}") as Performance & { killAt: number };
let lines = 0;
const outcome = await perform(performance, () => {
  lines += 1;
  if (lines === killAt) process.kill(process.pid, "SIGKILL");
});
process.stdout.write(JSON.stringify({ lines, outcome }));
