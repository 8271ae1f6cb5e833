import { DeployError, EXIT, isDeployError } from "../../deploy/errors.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { runProgram } from "../program.ts";
import { reportError } from "../report-error.ts";
import { cleanCommand } from "./clean.ts";
import { doctorCommand } from "./doctor.ts";
import { downCommand } from "./down.ts";
import { failureResult } from "./failure.ts";
import { localCommand } from "./local.ts";
import { logsCommand } from "./logs.ts";
import { planCommand } from "./plan.ts";
import type { PlatformCommand, PlatformSource } from "./platform-command.ts";
import { allFlags, isGiven, loadPlatform, platformFlag, wordOf } from "./platforms.ts";
import { rollbackCommand } from "./rollback.ts";
import { statusCommand } from "./status.ts";
import { upCommand } from "./up.ts";

const WITH_PLATFORM: readonly PlatformCommand[] = [
  planCommand,
  upCommand,
  statusCommand,
  downCommand,
  logsCommand,
  rollbackCommand,
  doctorCommand,
];

const NO_PLATFORM: PlatformSource = {
  entries: {},
  platform() {
    throw new UsageError("Option --platform is missing", "Write --platform <name>.");
  },
};
const NAMES = [...WITH_PLATFORM.map((make) => make(NO_PLATFORM)), localCommand, cleanCommand].map(
  ({ usage }) => usage.split(" ")[0]!,
);

/** Runs `svc deploy` with its arguments; resolves with the exit code. */
export async function run(argv: readonly string[], context: CliContext): Promise<number> {
  const name = "svc deploy";
  try {
    const known = argv.length === 0 || /^-|^help$/.test(argv[0]!) || NAMES.includes(argv[0]!);
    const source = known ? await findPlatform(argv, context) : NO_PLATFORM;
    const commands = [...WITH_PLATFORM.map((make) => make(source)), localCommand, cleanCommand];
    const summary = "Build the service into an image, run it on a platform, and manage it there";
    // For an unknown command only the name matters: its options cannot be known.
    return await runProgram({ name, summary, commands, report }, known ? argv : argv.slice(0, 1), context);
  } catch (error) {
    return report(error, name, context);
  }
}

/** A failure outside a command: as text, and as a document if one was requested. */
function report(error: unknown, program: string, context: CliContext): number {
  const code = reportError(error, program, context);
  if (!isGiven(context.argv, "json")) return code;
  const { message } = error as Error;
  const fix = error instanceof UsageError ? error.hint : undefined;
  const failure = isDeployError(error)
    ? error
    : new DeployError(code === EXIT.usage ? "usage" : "failed", message, { fix });
  context.print(JSON.stringify(failureResult(failure), null, 2));
  return code;
}

async function findPlatform(argv: readonly string[], context: CliContext): Promise<PlatformSource> {
  const wanted = wordOf(argv, "platform");
  const help = argv.length === 0 || argv[0] === "help" || argv.includes("--help") || argv.includes("-h");
  if (wanted !== undefined && !(help && wanted.startsWith("-"))) {
    const platform = await loadPlatform(wanted, context);
    return { entries: { ...platformFlag(context), ...platform.flags.entries }, platform: () => platform };
  }
  return {
    // Without a platform the options of all platforms are accepted, so that only the missing platform is
    // reported.
    entries: { ...platformFlag(context), ...(await allFlags(context)) },
    platform() {
      throw new UsageError(
        "Option --platform is missing",
        `Set --platform to one of: ${Object.keys(context.platforms).join(", ")}.`,
      );
    },
  };
}
