import * as v from "valibot";
import { toFlagName } from "../../core/base/option.ts";
import { quoted } from "../../core/base/quoted.ts";
import { DeployError } from "../../deploy/errors.ts";
import type { Finding, Platform } from "../../deploy/platform.ts";
import { TARGET_FLAGS } from "./flags.ts";

/** Completes the commands of `svc deploy` in a text for a person: each runs as it is printed, on the same service. */
export type Hint = (text: string) => string;

/** A command in a text, with the options that it has there. */
const COMMAND =
  /(?<open>"?)svc deploy (?<verb>[a-z][a-z-]*)(?<own>(?: --[a-z][\w-]*(?:[ =][^\s"-][^\s",;]*)?)*)/g;
/** What is for one run, or for a program that reads the output. */
const ONCE: readonly string[] = [
  "json",
  "show-api-key",
  "break-lock",
  "markdown",
  "comment",
  "read-only",
  "detailed-exitcode",
];
/** Commands that are about files of the project. */
const WITHOUT_PLACE: readonly string[] = ["init", "clean"];
/** Commands that do not have the options of the platform. */
const WITHOUT_PLATFORM: readonly string[] = ["local", "ci"];

/**
 * Creates the hint of a command line. A command that repeats it, or does what it has planned, gets all its options; any other one
 * those that say where the service is. What `deploy.yaml` says is not repeated.
 */
export function createHint(argv: readonly string[], { verb, platform }: HintOptions): Hint {
  const typed = typedOptions(argv);
  const target = Object.keys(TARGET_FLAGS).map(toFlagName);
  const located = [...target, ...locatingFlags(platform).map(toFlagName)];
  return (text) =>
    text.replaceAll(COMMAND, (...match) => {
      const [all, rest] = [match[0] as string, text.slice((match.at(-3) as number) + match[0].length)];
      const { open = "", verb: other = "", own = "" } = match.at(-1) as Record<string, string>;
      if (WITHOUT_PLACE.includes(other)) return all;
      // What was planned is applied with the same options.
      const repeats = (verb === "plan" && other === "up") || (other === verb && own === "");
      const locating = WITHOUT_PLATFORM.includes(other) ? target : located;
      const added = typed
        .filter(({ name }) => (repeats ? !ONCE.includes(name) : locating.includes(name)))
        .filter(({ name }) => !own.includes(` --${name}`))
        .flatMap(({ words }) => words.map(quoted));
      if (added.length === 0) return all;
      const line = `svc deploy ${other} ${added.join(" ")}${own}`;
      // In a sentence, where the command ends.
      return open === "" && /^ [\w(]/.test(rest) ? `"${line}"` : `${open}${line}`;
    });
}

interface HintOptions {
  /** Name of the command that runs. */
  readonly verb: string;
  readonly platform?: Platform<never> | undefined;
}

/** A failure whose commands can be run as they are printed. */
export function hinted(failure: DeployError, hint: Hint): DeployError {
  const { outcome, fix } = failure;
  return new DeployError(failure.code, failure.message, {
    ...failure,
    outcome: outcome && hint(outcome),
    fix: fix && hint(fix),
    cause: failure.cause,
  });
}

export function hintedFindings(findings: readonly Finding[], hint: Hint): Finding[] {
  return findings.map((finding) => (finding.fix ? { ...finding, fix: hint(finding.fix) } : finding));
}

/** Options of a platform without which no command finds the service. */
function locatingFlags(platform: Platform<never> | undefined): string[] {
  return Object.entries(platform?.flags.entries ?? {})
    .filter(
      ([, entry]) => !v.is(entry, undefined) || v.getMetadata(entry as v.GenericSchema).locates === true,
    )
    .map(([key]) => key);
}

interface TypedOption {
  readonly name: string;
  /** As typed. */
  readonly words: readonly string[];
}

function typedOptions(argv: readonly string[]): TypedOption[] {
  const end = argv.indexOf("--");
  const words = end < 0 ? argv : argv.slice(0, end);
  return words.flatMap((word, index) => {
    const name = /^--([^=]+)/.exec(word)?.[1];
    if (name === undefined) return [];
    const next = words[index + 1];
    const hasValue = !word.includes("=") && next !== undefined && !next.startsWith("-");
    return [{ name, words: hasValue ? [word, next] : [word] }];
  });
}
