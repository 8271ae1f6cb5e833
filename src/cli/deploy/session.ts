import { existsSync } from "node:fs";
import { relative } from "node:path";
import { confirm, isCancel } from "@clack/prompts";
import { toFlagName } from "../../core/base/option.ts";
import { Redactor } from "../../core/base/redactor.ts";
import { type Deployment, openDeployments } from "../../deploy/deployment.ts";
import { DeployError, isDeployError, toDeployError } from "../../deploy/errors.ts";
import type { DeployEvent } from "../../deploy/events.ts";
import { run as runProgram } from "../../deploy/exec.ts";
import { SETTINGS } from "../../deploy/file/settings.ts";
import { DEFAULT_OPTIONS, type DeployOptions } from "../../deploy/options.ts";
import type { Platform } from "../../deploy/platform.ts";
import type { CliContext } from "../context.ts";
import { CliError, UsageError } from "../errors.ts";
import { describeFlags } from "../flags.ts";
import { type Paint, PLAIN } from "../paint.ts";
import { listenForStop } from "../stop-signal.ts";
import { failureResult, tellFailure } from "./failure.ts";
import { createHint, type Hint, hinted } from "./hints.ts";
import { isGiven } from "./platforms.ts";
import { createProgress, type Progress } from "./progress.ts";

/** What a deploy command uses besides its options. */
export interface Shell {
  readonly context: CliContext;
  readonly progress: Progress;
  readonly paint: Paint;
  readonly redactor: Redactor;
  readonly json: boolean;
  readonly signal: AbortSignal;
  emit(event: DeployEvent): void;
  /** Completes the commands in a text, so that they run as they are printed. */
  readonly hint: Hint;
  /** Asks if the session is interactive and `--yes` was not set; otherwise confirms. */
  ask(question: string): Promise<boolean>;
  /** Rejects if the session is not interactive and `--yes` was not set: for actions that cannot be undone. */
  needYes(command: string): void;
  /** Asks the person at the terminal regardless of `--yes`; missing if the session is not interactive. */
  readonly askPerson?: (question: string) => Promise<boolean>;
  /** Writes a line of the result, secrets masked. */
  print(line: string): void;
  /** Writes the one document of `--json`. */
  document(value: unknown): void;
  /** Path of the log, shown if the command fails. */
  logPath: string | undefined;
}

type Given = Readonly<Record<string, unknown>>;

/** Runs a deploy command: progress, questions, Ctrl-C, and its failure as text or as a document. */
export async function withShell(
  context: CliContext,
  flags: Given,
  command: Parameters<typeof createHint>[1],
  body: (shell: Shell) => Promise<number>,
): Promise<number> {
  const hint = createHint(context.argv, command);
  const json = flags.json === true;
  const redactor = new Redactor();
  const progress = createProgress(context, { verbose: flags.verbose === true, quiet: json });
  const stopping = new AbortController();
  const stop = listenForStop(() => {
    progress.clear();
    if (!json) context.note("Stopping. Press Ctrl-C again to stop immediately");
    stopping.abort();
  });
  const askPerson = async (question: string, initialValue = false) => {
    progress.clear();
    const answer = await confirm({ message: question, initialValue });
    return !isCancel(answer) && answer;
  };
  const shell: Shell = {
    context,
    progress,
    paint: context.paint?.print ?? PLAIN,
    redactor,
    json,
    signal: stopping.signal,
    logPath: undefined,
    hint,
    emit: (event) =>
      progress.show(event.type === "notice" && event.fix ? { ...event, fix: hint(event.fix) } : event),
    print: (line) => context.print(redactor.text(line)),
    document: (value) => context.print(JSON.stringify(redactor.json(value), null, 2)),
    needYes(command) {
      if (flags.yes === true || (context.interactive && !json)) return;
      throw new DeployError(
        "usage",
        `${command} deletes permanently, and there is no terminal to confirm it`,
        {
          outcome: "Nothing was changed",
          fix: "Add --yes to remove without confirmation",
        },
      );
    },
    async ask(question) {
      if (flags.yes === true || json || !context.interactive) return true;
      return askPerson(question, true);
    },
    ...(json || !context.interactive ? {} : { askPerson }),
  };
  try {
    return await retryWithPackages(shell, flags, () => body(shell));
  } catch (error) {
    progress.clear();
    if (error instanceof UsageError || error instanceof CliError) throw error;
    const failure = hinted(toDeployError(error, "Unexpected error"), hint);
    if (json) shell.document(failureResult(failure));
    else {
      const path = shell.logPath;
      const log = path !== undefined && existsSync(path) ? relative(context.cwd, path) : undefined;
      tellFailure(masked(context, redactor), failure, log);
    }
    return failure.exitCode;
  } finally {
    progress.clear();
    stop.release();
  }
}

/** Opens the deployment that the options describe, in each of its places. */
export async function openFrom(
  shell: Shell,
  platform: Platform<never>,
  flags: Given,
  command: string,
  environment?: string,
): Promise<readonly Deployment[]> {
  const { context } = shell;
  const own = describeFlags(platform.flags)
    .filter((flag) => isGiven(context.argv, flag.name))
    .map((flag) => [flag.key, flags[flag.key]]);
  const options = Object.fromEntries(
    OPTION_KEYS.filter((key) => key !== "showApiKey" || !shell.json)
      .filter((key) => flags[key] !== undefined && isGiven(context.argv, toFlagName(key)))
      .map((key) => [key, flags[key]]),
  ) as Partial<DeployOptions>;
  const opened = await openDeployments({
    platform,
    options: environment === undefined ? options : { ...options, env: environment },
    // An environment that runs need no longer be in the file.
    settingsOf: environment === undefined ? undefined : (options.env ?? DEFAULT_OPTIONS.env),
    flags: Object.fromEntries(own),
    cwd: context.cwd,
    env: context.env,
    command,
    emit: shell.emit,
    signal: shell.signal,
    redactor: shell.redactor,
  });
  shell.logPath = opened[0]?.log.path;
  return opened;
}

/** Options that are passed to the engine unchanged: those that deploy.yaml can have, and those of one command. */
const OPTION_KEYS = [
  ...(Object.keys(SETTINGS) as (keyof typeof SETTINGS)[]),
  ...(["platform", "env", "image", "rollback"] as const),
  ...(["acceptDataLoss", "acceptEphemeralDisk"] as const),
  ...(["overwriteFiles", "heldJobs", "breakLock", "showApiKey", "removeKeys"] as const),
] satisfies readonly (keyof DeployOptions)[];

/** If a platform's packages are missing, offers at a terminal to install them and continues. */
async function retryWithPackages(shell: Shell, flags: Given, body: () => Promise<number>): Promise<number> {
  const { context } = shell;
  try {
    return await body();
  } catch (error) {
    if (!isDeployError(error) || error.code !== "missing_package" || !error.fix) throw error;
    // `--yes` accepts the plan of a deployment, not changes to the project.
    if (!context.interactive || shell.json || flags.yes === true) throw error;
    shell.progress.clear();
    context.note(error.message);
    if (!(await shell.ask(`Run "${error.fix}" now?`))) throw error;
    const [command = "npm", ...args] = error.fix.split(" ");
    const installed = await runProgram(command, args, {
      cwd: context.cwd,
      env: context.env,
      signal: shell.signal,
      onLine: (line) => context.note(`  ${line}`),
    });
    if (installed.code !== 0)
      throw error.with({ outcome: `"${command}" ended with exit code ${installed.code}` });
    return body();
  }
}

function masked(context: CliContext, redactor: Redactor): CliContext {
  return { ...context, note: (line) => context.note(redactor.text(line)) };
}
