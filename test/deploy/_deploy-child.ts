// Deploys to a world and dies at the n-th line of its journal: node _child.mjs <json>
import { openDeployment } from "../../src/core/deploy/deployment.ts";
import { DEFAULT_OPTIONS } from "../../src/core/deploy/options.ts";
import { up } from "../../src/core/deploy/up.ts";
import { memoryPlatform } from "./_memory-platform.ts";
import { openWorld } from "./_world.ts";

interface ChildOptions {
  readonly cwd: string;
  readonly world: string;
  readonly base: string;
  readonly killAt: number;
}

const { cwd, world, base, killAt } = JSON.parse(process.argv[2] ?? "{}") as ChildOptions;
let lines = 0;
const deployment = await openDeployment({
  platform: memoryPlatform({ world: openWorld(world), base }) as never,
  options: { ...DEFAULT_OPTIONS, name: "hello", generateApiKey: true },
  flags: {},
  cwd,
  env: { PATH: process.env.PATH },
  command: "svc deploy up",
  emit: () => undefined,
  polling: { firstWait: 0.2, interval: 0.05, timeout: 0.4 },
  onJournal: () => {
    lines += 1;
    if (lines === killAt) process.kill(process.pid, "SIGKILL");
  },
});
await up(deployment, async () => true);
await deployment.close();
process.stdout.write(String(lines));
