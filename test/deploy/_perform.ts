import type { Deployment } from "../../src/deploy/deployment.ts";
import { openDeployment } from "../../src/deploy/deployment.ts";
import { down } from "../../src/deploy/down.ts";
import { isDeployError } from "../../src/deploy/errors.ts";
import type { JournalLine } from "../../src/deploy/journal.ts";
import { DEFAULT_OPTIONS } from "../../src/deploy/options.ts";
import { rollback } from "../../src/deploy/rollback.ts";
import { up } from "../../src/deploy/up.ts";
import { memoryPlatform } from "./_memory-platform.ts";
import { openWorld } from "./_world.ts";

export type Command = "up" | "rollback" | "down";

export interface Performance {
  readonly command: Command;
  readonly cwd: string;
  /** File of the world, and where it is served. */
  readonly world: string;
  readonly base: string;
  /** Whether a release is held back until it is healthy. */
  readonly canary?: boolean;
}

const COMMANDS: Readonly<Record<Command, (deployment: Deployment) => Promise<unknown>>> = {
  up: (deployment) => up(deployment, async () => true),
  rollback: (deployment) => rollback(deployment, { to: undefined, consent: async () => true }),
  down: (deployment) => down(deployment, async () => true),
};

/** Carries a command out on a world; resolves with `done`, or the code of the error that it ended with. */
export async function perform(
  { command, cwd, world, base, canary = false }: Performance,
  onJournal: (line: JournalLine) => void = () => undefined,
): Promise<string> {
  const deployment = await openDeployment({
    platform: memoryPlatform({ world: openWorld(world), base }) as never,
    options: { ...DEFAULT_OPTIONS, name: "hello", generateApiKey: true },
    flags: { canary },
    cwd,
    env: { PATH: process.env.PATH },
    command: `svc deploy ${command}`,
    emit: () => undefined,
    polling: { firstWait: 0.2, interval: 0.05, timeout: 0.4 },
    onJournal,
  });
  try {
    await COMMANDS[command](deployment);
    return "done";
  } catch (error) {
    if (isDeployError(error)) return error.code;
    throw error;
  } finally {
    await deployment.close();
  }
}
