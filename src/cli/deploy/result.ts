import { EXIT } from "../../deploy/errors.ts";
import type { Shell } from "./session.ts";

type Fact = readonly [name: string, value: string | undefined | null];

/** What a command that succeeded says. */
export interface Result {
  /** With `--json`. */
  readonly document: unknown;
  /** Whether an empty line separates it from what was printed before. @default false */
  readonly isApart?: boolean;
  /** First, in bold. */
  readonly title?: string;
  /** Names and values, one per line; those without a value are omitted. */
  readonly facts?: readonly Fact[];
  /** What follows them. */
  readonly lines?: readonly string[];
}

/** Prints the result of a command: as one document, or as text. Returns the exit code of success. */
export function tellResult(
  shell: Shell,
  { document, isApart, title, facts = [], lines = [] }: Result,
): number {
  const { paint } = shell;
  shell.progress.clear();
  if (shell.json) {
    shell.document(document);
    return EXIT.done;
  }
  if (isApart) shell.print("");
  if (title !== undefined) shell.print(paint("bold", title));
  const shown = facts.filter(([, value]) => value !== undefined && value !== null && value !== "");
  const width = Math.max(...shown.map(([name]) => name.length)) + 2;
  for (const [name, value] of shown) shell.print(`  ${paint("dim", name.padEnd(width))}${value}`);
  for (const line of lines) shell.print(line);
  return EXIT.done;
}
