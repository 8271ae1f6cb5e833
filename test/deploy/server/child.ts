// Deploys to a server in a process of its own, which ends at a line of its journal: node child.js, with JSON on its input.
import { readFileSync } from "node:fs";
import { archive } from "../../../src/cli/deploy/restore.ts";
import { openDeployments } from "../../../src/deploy/deployment.ts";
import { DEFAULT_OPTIONS } from "../../../src/deploy/options.ts";
import { following, lockAll } from "../../../src/deploy/places.ts";
import { toTar } from "../../../src/deploy/tar.ts";
import { up } from "../../../src/deploy/up.ts";
import platform from "../../../src/plugins/platforms/server/platform.ts";

export interface ServerChild {
  readonly name: string;
  readonly port: number;
  readonly cwd: string;
  readonly flags: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string>>;
  /** Counted from 1; 0 for none. */
  readonly killAt: number;
  /** The key that it replaces. */
  readonly rotateKey?: "rsa" | "api";
  /** A folder with a backup: it is restored, and nothing is deployed. */
  readonly restore?: string;
}

const { name, port, cwd, flags, env, killAt, rotateKey, restore } = JSON.parse(
  readFileSync(0, "utf8"),
) as ServerChild;
const steps: string[] = [];
const all = await openDeployments({
  platform: platform as never,
  options: { ...DEFAULT_OPTIONS, name, port, rotateKey },
  flags,
  cwd,
  env: { ...process.env, ...env },
  command: "svc deploy up",
  emit: () => undefined,
  polling: { firstWait: 20, interval: 0.3, timeout: 20 },
  onJournal({ step }) {
    steps.push(step);
    if (steps.length === killAt) process.kill(process.pid, "SIGKILL");
  },
});
await lockAll(all);
if (restore !== undefined) {
  const ended = all[0]!.session.restore!(toTar(await archive(restore)));
  console.log(
    JSON.stringify(
      await ended.then(
        () => steps,
        () => steps,
      ),
    ),
  );
  process.exit(0);
}
for (const one of all) await up(one === all[0] ? one : await following(one, all[0]!), async () => true);
for (const one of all) await one.close();
console.log(JSON.stringify(steps));
process.exit(0);
