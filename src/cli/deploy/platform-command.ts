import * as v from "valibot";
import type { Deployment } from "../../deploy/deployment.ts";
import type { OpenEnvironment } from "../../deploy/environments.ts";
import type { Platform, PlatformFlags } from "../../deploy/platform.ts";
import { type Command, defineCommand } from "../command.ts";
import { COMMON, forCommand } from "./flags.ts";
import { openFrom, type Shell, withShell } from "./session.ts";

/** Creates a command for one platform; the platform's own options are included. */
export type PlatformCommand = (platform: PlatformSource) => Command;

/** The platform of a command line: its options for the help, the platform itself for the run. */
export interface PlatformSource {
  readonly entries: PlatformFlags["entries"];
  platform(): Platform<never>;
}

/** What a command on a deployment gets. */
export interface PlatformRun {
  readonly shell: Shell;
  readonly deployment: Deployment;
  /** The options of the command line. */
  readonly given: Readonly<Record<string, unknown>>;
  readonly args: readonly string[];
  /** Opens another environment in the same place, with the same options; closed by the caller. */
  readonly open: OpenEnvironment;
}

/** A command on the deployment that its options describe, which is closed after it. */
export function platformCommand(command: {
  readonly usage: string;
  readonly summary: string;
  /** Options besides those of the platform. */
  readonly flags: PlatformFlags["entries"];
  readonly examples: readonly string[];
  /** Resolves with the exit code. */
  readonly run: (input: PlatformRun) => Promise<number>;
}): PlatformCommand {
  const { usage, summary, flags, examples } = command;
  return ({ entries, platform }) =>
    defineCommand({
      usage,
      summary,
      flags: v.object({ ...COMMON, ...flags, ...forCommand(entries, usage) }),
      examples,
      run: ({ flags: given, args, context }) =>
        withShell(context, given, async (shell) => {
          const deployment = await openFrom(shell, platform(), given, `svc deploy ${usage}`);
          try {
            const open: OpenEnvironment = (environment) =>
              openFrom(shell, platform(), given, `svc deploy ${usage}`, environment);
            return await command.run({ shell, deployment, given, args, open });
          } finally {
            await deployment.close();
          }
        }),
    });
}
