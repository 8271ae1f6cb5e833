// Runs one deploy command in a process of its own, to be killed: node child.js <json>
import type { PlatformLoader } from "../../../src/deploy/platform.ts";
import { appRunner } from "../../../src/plugins/platforms/app-runner/index.ts";
import { awsEcsExpress } from "../../../src/plugins/platforms/aws-ecs-express/index.ts";
import { cloudRun } from "../../../src/plugins/platforms/cloud-run/index.ts";
import { doAppPlatform } from "../../../src/plugins/platforms/do-app-platform/index.ts";
import type { Command } from "./command.ts";
import { runCommand } from "./command.ts";

/** Input of a child: its command, and where the emulator serves users. */
export interface ChildOptions {
  readonly platform: string;
  readonly command: Command;
  /** End of a host name, and the address that answers for it. */
  readonly fronts: readonly (readonly [string, string])[];
}

const { platform, command, fronts } = JSON.parse(process.argv[2] ?? "{}") as ChildOptions;
const loaders: Record<string, PlatformLoader> = {
  ...cloudRun.platforms,
  ...appRunner.platforms,
  ...awsEcsExpress.platforms,
  ...doAppPlatform.platforms,
};
const loaded = await loaders[platform]!();
await runCommand(command, {
  platform: loaded.default,
  frontFor: (host) => fronts.find(([end]) => host.endsWith(end))?.[1],
});
process.exit(0);
