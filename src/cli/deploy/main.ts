import * as v from "valibot";
import { DeployError, EXIT, isDeployError } from "../../deploy/errors.ts";
import { DEPLOY_FILE, openDeployFile } from "../../deploy/file/deploy-file.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { runProgram } from "../program.ts";
import { reportError } from "../report-error.ts";
import { backupCommand } from "./backup.ts";
import { ciCommand } from "./ci.ts";
import { cleanCommand } from "./clean.ts";
import { doctorCommand } from "./doctor.ts";
import { downCommand } from "./down.ts";
import { execCommand } from "./exec.ts";
import { exportCommand } from "./export.ts";
import { failureResult, tellFailure } from "./failure.ts";
import { initCommand } from "./init.ts";
import { listCommand } from "./list.ts";
import { localCommand } from "./local.ts";
import { logsCommand } from "./logs.ts";
import { planCommand } from "./plan.ts";
import type { PlatformCommand, PlatformSource } from "./platform-command.ts";
import { allFlags, isGiven, loadPlatform, offeredNames, platformFlag, wordOf } from "./platforms.ts";
import { restoreCommand } from "./restore.ts";
import { rollbackCommand } from "./rollback.ts";
import { setupCommand } from "./setup.ts";
import { statusCommand } from "./status.ts";
import { rotateKeyCommand, upCommand } from "./up.ts";

const WITH_PLATFORM: readonly PlatformCommand[] = [
  planCommand,
  upCommand,
  rotateKeyCommand,
  statusCommand,
  listCommand,
  downCommand,
  logsCommand,
  execCommand,
  rollbackCommand,
  doctorCommand,
  exportCommand,
  setupCommand,
  backupCommand,
  restoreCommand,
];

const NO_PLATFORM: PlatformSource = {
  entries: {},
  platform() {
    throw new UsageError("Option --platform is missing", "Write --platform <name>.");
  },
};
const nameOf = ({ usage }: { readonly usage: string }) => usage.split(" ")[0]!;
const PLATFORM_NAMES = WITH_PLATFORM.map((make) => nameOf(make(NO_PLATFORM)));
const NAMES = [...PLATFORM_NAMES, ...[initCommand({}), ciCommand, localCommand, cleanCommand].map(nameOf)];

/** Runs `svc deploy` with its arguments; resolves with the exit code. */
export async function run(argv: readonly string[], context: CliContext): Promise<number> {
  const name = "svc deploy";
  try {
    const known = argv.length === 0 || /^-|^help$/.test(argv[0]!) || NAMES.includes(argv[0]!);
    const source = known ? await findPlatform(argv, context) : NO_PLATFORM;
    const others = [initCommand(source.entries), ciCommand, localCommand, cleanCommand];
    const commands = [...WITH_PLATFORM.map((make) => make(source)), ...others];
    const summary = "Build the service into an image, run it on a platform, and manage it there";
    // For an unknown command only the name matters: its options cannot be known.
    return await runProgram({ name, summary, commands, report }, known ? argv : argv.slice(0, 1), context);
  } catch (error) {
    return report(error, name, context);
  }
}

/** A failure outside a command: as text, and as a document if one was requested. */
function report(error: unknown, program: string, context: CliContext): number {
  if (isDeployError(error) && !isGiven(context.argv, "json")) {
    tellFailure(context, error, undefined);
    return error.exitCode;
  }
  const code = isDeployError(error) ? error.exitCode : reportError(error, program, context);
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
  const typed = wordOf(argv, "platform");
  const help = argv.length === 0 || argv[0] === "help" || argv.includes("--help") || argv.includes("-h");
  const file = help || !PLATFORM_NAMES.includes(argv[0]!) ? undefined : await openDeployFile(context.cwd);
  const wanted = typed ?? file?.platformOf(wordOf(argv, "env") ?? "dev");
  if (wanted !== undefined && !(help && wanted.startsWith("-"))) {
    const platform = await loadPlatform(wanted, context);
    const { entries } = platform.flags;
    // What the file sets need not be typed; what both lack is reported when they are joined.
    const own = file === undefined ? entries : v.entriesFromObjects([v.partial(v.object(entries))]);
    return { entries: { ...platformFlag(context), ...own }, platform: () => platform };
  }
  return {
    // Without a platform the options of all platforms are accepted and none is required, so that only the missing
    // platform is reported.
    entries: { ...platformFlag(context), ...optional(await allFlags(context)) },
    platform() {
      throw new UsageError(
        "Option --platform is missing",
        `Set --platform to one of: ${offeredNames(context).join(", ")}. Or write it in ${DEPLOY_FILE}: svc deploy init does so.`,
      );
    },
  };
}

/** Options none of which is required; the help still shows the defaults. */
function optional(entries: PlatformSource["entries"]): PlatformSource["entries"] {
  return Object.fromEntries(
    Object.entries(entries).map(([key, entry]) => [key, v.is(entry, undefined) ? entry : v.optional(entry)]),
  );
}
