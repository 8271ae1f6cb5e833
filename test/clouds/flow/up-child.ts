// Deploys to an emulated cloud in a process of its own, to be killed: node child.mjs <json>
import { openDeployment } from "../../../src/core/deploy/deployment.ts";
import { DEFAULT_OPTIONS } from "../../../src/core/deploy/options.ts";
import type { Platform, PlatformLoader } from "../../../src/core/deploy/platform.ts";
import { up } from "../../../src/core/deploy/up.ts";
import { appRunner } from "../../../src/plugins/app-runner/index.ts";
import { awsEcsExpress } from "../../../src/plugins/aws-ecs-express/index.ts";
import { cloudRun } from "../../../src/plugins/cloud-run/index.ts";
import { doAppPlatform } from "../../../src/plugins/do-app-platform/index.ts";
import { frontFetch } from "../tools.ts";
import { quickClock } from "./clock.ts";

interface ChildOptions {
  readonly platform: string;
  readonly projectId?: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** End of a host name, and the address that answers for it. */
  readonly fronts: readonly (readonly [string, string])[];
}

const { platform, projectId, cwd, env, fronts } = JSON.parse(process.argv[2] ?? "{}") as ChildOptions;
const plugins = [cloudRun, appRunner, awsEcsExpress, doAppPlatform];
const loaders: Record<string, PlatformLoader> = Object.assign(
  {},
  ...plugins.map((plugin) => plugin.platforms),
);
const loaded = (await loaders[platform]?.())?.default as Platform<never>;
const deployment = await openDeployment({
  platform: loaded,
  options: { ...DEFAULT_OPTIONS, name: "hello", projectId },
  flags: {},
  cwd,
  env,
  command: "svc deploy up",
  emit: () => undefined,
  fetch: frontFetch((host) => fronts.find(([end]) => host.endsWith(end))?.[1]),
  ...quickClock(),
  polling: { firstWait: 1, interval: 1, timeout: 3 },
});
await up(deployment, async () => true);
await deployment.close();
process.exit(0);
