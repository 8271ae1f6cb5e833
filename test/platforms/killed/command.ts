import { openDeployment } from "../../../src/deploy/deployment.ts";
import { down } from "../../../src/deploy/down.ts";
import { isDeployError } from "../../../src/deploy/errors.ts";
import { DEFAULT_OPTIONS } from "../../../src/deploy/options.ts";
import type { Platform } from "../../../src/deploy/platform.ts";
import { rollback } from "../../../src/deploy/rollback.ts";
import { up } from "../../../src/deploy/up.ts";
import { quickClock } from "../flow/clock.ts";
import { frontFetch } from "../tools.ts";

/** A command line, as far as these tests vary it. */
export interface Command {
  readonly name: "up" | "rollback" | "down";
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly projectId?: string | undefined;
  readonly flags: Readonly<Record<string, unknown>>;
  readonly acceptDataLoss?: boolean;
  /** The key that `up` replaces. */
  readonly rotateKey?: "rsa" | "api" | undefined;
}

export interface Surroundings {
  readonly platform: Platform<never>;
  frontFor(host: string): string | undefined;
}

/** Runs a deploy command to its end; resolves with "done" or the exit code and code of its failure. */
export async function runCommand(command: Command, { platform, frontFor }: Surroundings): Promise<string> {
  const { name, cwd, env, projectId, flags, acceptDataLoss = false, rotateKey } = command;
  const deployment = await openDeployment({
    platform,
    options: { ...DEFAULT_OPTIONS, name: "hello", projectId, acceptDataLoss, rotateKey, showApiKey: true },
    flags,
    cwd,
    env,
    command: `svc deploy ${name}`,
    emit: () => undefined,
    fetch: frontFetch(frontFor),
    ...quickClock(),
    polling: { firstWait: 1, interval: 1, timeout: 3 },
  });
  const consent = async () => true;
  try {
    if (name === "up") await up(deployment, consent);
    else if (name === "down") await down(deployment, consent);
    else await rollback(deployment, { to: undefined, consent });
    return "done";
  } catch (error) {
    if (isDeployError(error)) return `${error.exitCode} ${error.code}`;
    throw error;
  } finally {
    await deployment.close();
  }
}
