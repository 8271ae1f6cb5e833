import { cac } from "cac";
import { suggest } from "../core/base/suggest.ts";
import type { Command, CommandGroup } from "./command.ts";
import type { CliContext } from "./context.ts";
import { UsageError } from "./errors.ts";
import { describeFlags, type Flag, readFlags } from "./flags.ts";
import { guardNumbers, unguard } from "./number-guard.ts";
import { withPrintable } from "./printable.ts";
import { reportError } from "./report-error.ts";

/** A program name and its commands. */
export interface Program {
  /** As typed, such as `svc deploy`. */
  readonly name: string;
  readonly summary: string;
  readonly version?: string;
  /** Where to read more, for the help of the whole program. */
  readonly docs?: () => string;
  readonly commands: readonly Command[];
  readonly groups?: readonly CommandGroup[];
  /** Finds the commands that the project here adds; called for an unknown command and for the help. */
  readonly project?: (reserved: readonly string[]) => Promise<ProjectCommands>;
  /** Reports a failure and returns the exit code. @default reportError */
  readonly report?: typeof reportError;
}

/** Commands of the project here, and why some that it has are not among them. */
export interface ProjectCommands {
  readonly commands: readonly Command[];
  readonly problems: readonly string[];
}

/** Argument that precedes a command line that is being completed. */
export const COMPLETE = "--complete";

/**
 * Runs one command line: the exit code is 0 on success, 1 on failure, 2 for an invalid command line.
 *
 * @example
 * export const run = (argv: readonly string[], context: CliContext) => runProgram({ name: "svc store", … }, argv, context);
 */
export async function runProgram(
  program: Program,
  argv: readonly string[],
  context: CliContext,
): Promise<number> {
  const words = argv[0] === "help" ? [...argv.slice(1), "--help"] : argv;
  if (words[0] === COMPLETE) return complete(program, words.slice(1), context);
  try {
    const group = program.groups?.find((one) => one.name === words[0]);
    if (group) return await (await group.load()).run(words.slice(1), context);
    return await runCommand(program, words, context);
  } catch (error) {
    return (program.report ?? reportError)(error, program.name, context);
  }
}

/** Prints the completions of the last word, one per line; called by the scripts of `svc completion`. */
async function complete(program: Program, words: readonly string[], context: CliContext): Promise<number> {
  const group = words.length > 1 ? program.groups?.find((one) => one.name === words[0]) : undefined;
  if (group) return (await group.load()).run([COMPLETE, ...words.slice(1)], context);
  const last = words.at(-1) ?? "";
  // To load the project takes a while: only where nothing else is meant.
  const isOwn = words.length <= 1 ? namesOf(program).some((name) => name.startsWith(last)) : false;
  const known = isOwn ? program : await withProject(program, words);
  const command = known.commands.find((one) => nameOf(one.usage) === words[0]);
  const all =
    words.length <= 1
      ? namesOf(known)
      : command?.flags
        ? describeFlags(command.flags)
            .filter(({ hidden }) => !hidden)
            .map(longSpelling)
        : [];
  for (const one of all) if (one.startsWith(last)) context.print(one);
  return 0;
}

function longSpelling({ kind, fallback, name }: Flag): string {
  return `--${kind === "boolean" && fallback === true ? "no-" : ""}${name}`;
}

/** A program together with the commands of the project, where the command line may be about these. */
async function withProject(
  program: Program,
  words: readonly string[],
): Promise<Program & { readonly problems: readonly string[] }> {
  const isOwn = program.commands.some((one) => nameOf(one.usage) === words[0]);
  const isVersion = program.version !== undefined && ["-v", "--version"].includes(words[0] ?? "");
  if (isOwn || isVersion || !program.project) return { ...program, problems: [] };
  const { commands, problems } = await program.project(namesOf(program));
  return { ...program, commands: [...program.commands, ...commands], problems };
}

async function runCommand(own: Program, words: readonly string[], context: CliContext): Promise<number> {
  const program = await withProject(own, words);
  const command = program.commands.find((one) => nameOf(one.usage) === words[0]);
  if (!command) for (const problem of program.problems) context.note(problem);
  if (!command && words[0] !== undefined && !words[0].startsWith("-"))
    throw unknownCommand(program, words[0]);
  try {
    return await runKnown(program, command, words, context);
  } catch (error) {
    if (error instanceof UsageError && command) error.command ??= `${program.name} ${nameOf(command.usage)}`;
    throw error;
  }
}

async function runKnown(
  program: Program,
  command: Command | undefined,
  words: readonly string[],
  context: CliContext,
): Promise<number> {
  const guarded = guardNumbers(words);
  const flags = command ? flagsOf(command) : [];
  checkOptions(guarded, flags, program, command === undefined && program.version !== undefined);
  const cli = createParser(program);
  cli.parse(["node", "svc", ...guarded], { run: false });
  if (cli.options.help || cli.options.version) return 0;
  if (!command) {
    cli.outputHelp();
    return 2;
  }
  const args = [...cli.args, ...((cli.options["--"] as string[] | undefined) ?? [])].map(unguard);
  checkArguments(`${program.name} ${command.usage}`, args);
  const raw = Object.fromEntries(Object.entries(cli.options).map(([key, value]) => [key, unguard(value)]));
  return command.run({ args, flags: command.flags ? readFlags(command.flags, raw) : {}, context });
}

function createParser(program: Program): ReturnType<typeof cac> {
  const cli = cac(program.name);
  for (const { usage, summary, flags, examples } of program.commands) {
    const command = cli.command(usage, summary, { ignoreOptionDefaultValue: true });
    for (const flag of flags ? describeFlags(flags) : [])
      command.option(spelling(flag), flag.description, { default: shownDefault(flag) });
    for (const example of examples ?? []) command.example(`  $ ${example}`);
  }
  for (const { name, summary } of program.groups ?? []) cli.command(`${name} <command>`, summary);
  if (program.version !== undefined) cli.version(program.version);
  cli.help((sections) => {
    const [, ...rest] = sections.filter((section) => !section.title?.startsWith("For more information"));
    const name = cli.matchedCommand?.name;
    const flags = program.commands.find(({ usage }) => nameOf(usage) === name)?.flags;
    const hidden = flags ? describeFlags(flags).filter((flag) => flag.hidden) : [];
    const shown = rest.map((section) => without(section, hidden.map(spelling))).map(tidy);
    const docs = name === undefined && program.docs ? [{ title: "Docs", body: `  ${program.docs()}` }] : [];
    return [{ body: cli.matchedCommand?.description ?? program.summary }, ...shown, ...docs];
  });
  return cli;
}

/** A section without the lines of some options. */
function without(
  section: { title?: string; body: string },
  spellings: readonly string[],
): { title?: string; body: string } {
  const isShown = (line: string) => !spellings.some((one) => line.trim().split(/ {2,}/)[0] === one);
  return { ...section, body: section.body.split("\n").filter(isShown).join("\n") };
}

/** A switch written `--no-…` is off by default, whatever the parser says. */
function tidy(section: { title?: string; body: string }): { title?: string; body: string } {
  const lines = section.body.split("\n");
  const tidied = lines.map((line) => line.replace(/(--no-.*) \(default: true\)$/, "$1").trimEnd());
  return { ...section, body: tidied.join("\n") };
}

function spelling(flag: Flag): string {
  const alias = flag.alias ? `-${flag.alias}, ` : "";
  if (flag.kind === "boolean") return `${alias}--${flag.fallback === true ? "no-" : ""}${flag.name}`;
  return `${alias}--${flag.name} <${flag.value}>`;
}

/** A switch's default shows in its spelling. */
function shownDefault({ kind, fallback }: Flag): unknown {
  return kind === "boolean" || Array.isArray(fallback) ? undefined : fallback;
}

/** The parser treats every argument that starts with `-`, up to a bare `--`, as an option. */
function checkOptions(
  words: readonly string[],
  flags: readonly Flag[],
  program: Program,
  hasVersion: boolean,
): void {
  const letters = new Set(["h", ...(hasVersion ? ["v"] : []), ...flags.flatMap((flag) => flag.alias ?? [])]);
  const names = ["help", ...(hasVersion ? ["version"] : []), ...flags.map((flag) => flag.name)];
  const switches = flags.filter((flag) => flag.kind === "boolean").map((flag) => flag.name);
  for (const word of words) {
    if (word === "--") return;
    const name = /^--([^=]*)/.exec(word)?.[1];
    if (name !== undefined) {
      const of = [name, name.replace(/^no-/, "")].find((one) => switches.includes(one));
      if (of !== undefined && word.includes("="))
        throw new UsageError(`Option --${name} takes no value`, `Write --${of} or --no-${of}.`);
      if (of !== undefined || names.includes(name)) continue;
      const owner = program.commands.find((one) => flagsOf(one).some((flag) => flag.name === name));
      if (owner) {
        throw new UsageError(`Unknown option --${name}`, `${program.name} ${nameOf(owner.usage)} has it.`);
      }
      const meant = suggest(name, [...names, ...switches.map((one) => `no-${one}`)]);
      throw new UsageError(`Unknown option --${name}`, meant && `Did you mean --${meant}?`);
    }
    const unknown = word.startsWith("-") && [...word.slice(1)].find((letter) => !letters.has(letter));
    if (unknown) throw new UsageError(`Unknown option -${unknown}`);
  }
}

function unknownCommand(program: Program, word: string): UsageError {
  const names = namesOf(program);
  const meant = suggest(word, names);
  return new UsageError(
    `Unknown command "${word}"`,
    meant ? `Did you mean "${program.name} ${meant}"?` : `Commands: ${names.join(", ")}.`,
  );
}

function checkArguments(usage: string, args: readonly string[]): void {
  const declared = usage.match(/[<[][^>\]]+[>\]]/g) ?? [];
  const missing = declared.filter((one) => one.startsWith("<"))[args.length];
  if (missing) throw new UsageError(`Missing argument ${missing}`, `Usage: ${usage}`);
  if (declared.at(-1)?.includes("...") || args.length <= declared.length) return;
  throw new UsageError(`Unexpected argument "${args[declared.length]}"`, `Usage: ${usage}`);
}

function namesOf(program: Program): string[] {
  return [
    ...program.commands.map((one) => nameOf(one.usage)),
    ...(program.groups ?? []).map((one) => one.name),
  ];
}

function flagsOf({ flags }: Command): Flag[] {
  return flags ? describeFlags(flags) : [];
}

function nameOf(usage: string): string {
  return usage.split(" ")[0]!;
}

/** Runs commands of a running service as a program: `svc job …`. What the service sends is printed as text only. */
export function serviceCommands(program: Program) {
  return (argv: readonly string[], context: CliContext): Promise<number> =>
    runProgram(program, argv, withPrintable(context));
}
