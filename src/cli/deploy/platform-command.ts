import * as v from "valibot";
import type { OpenEnvironment } from "../../deploy/environments.ts";
import type { Platform, PlatformFlags } from "../../deploy/platform.ts";
import { type Command, defineCommand } from "../command.ts";
import { COMMON, forCommand } from "./flags.ts";
import type { PlatformRun } from "./platform-run.ts";
import { openFrom, withShell } from "./session.ts";
import { inEach, inPlaces, type Several } from "./several.ts";

/** Creates a command for one platform; the platform's own options are included. */
export type PlatformCommand = (platform: PlatformSource) => Command;

/** The platform of a command line: its options for the help, the platform itself for the run. */
export interface PlatformSource {
  readonly entries: PlatformFlags["entries"];
  platform(): Platform<never>;
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
  /** How it runs where the deployment has several places. @default `inEach` */
  readonly several?: Several;
}): PlatformCommand {
  const { usage, summary, flags, examples, several = inEach } = command;
  return ({ entries, platform }) =>
    defineCommand({
      usage,
      summary,
      flags: v.object({ ...COMMON, ...flags, ...forCommand(entries, usage) }),
      examples,
      run: ({ flags: given, args, context }) =>
        withShell(context, given, { verb: usage.split(" ")[0]!, platform: platform() }, async (shell) => {
          const openAll = (environment?: string) =>
            openFrom(shell, platform(), given, `svc deploy ${usage}`, environment);
          const all = await openAll();
          try {
            const runs = all.map((deployment, index): PlatformRun => {
              const open: OpenEnvironment = async (environment) => {
                const opened = await openAll(environment);
                for (const other of opened) if (other !== opened[index]) await other.close();
                return opened[index]!;
              };
              return { shell, deployment, given, args, open, first: index === 0 ? undefined : all[0] };
            });
            return await (runs.length === 1 ? command.run(runs[0]!) : inPlaces(runs, several, command.run));
          } finally {
            for (const one of all) await one.close();
          }
        }),
    });
}
