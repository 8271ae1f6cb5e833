import { expect } from "vitest";
import { type Requirement, requirement } from "../_require.ts";

/** A command line as it is run: as shown, or with what replaces the placeholders of the page. */
export type Filled = readonly [shown: string, values: Readonly<Record<string, string>>];
export type Commands = Readonly<Record<string, string | Filled>>;

/** Titles of scenarios by the command lines that they run. */
export const RUN = new Map<string, string>();

/**
 * Declares a test that runs these command lines of the pages. It gets them by the names that it gives them, and fails where it
 * has not read all of them.
 */
export function scenario<C extends Commands>(
  title: string,
  needs: readonly Requirement[],
  commands: C,
  run: (lines: { readonly [K in keyof C]: string }) => Promise<void>,
): void {
  for (const command of Object.values(commands)) RUN.set(shownOf(command), title);
  requirement(...needs).it(
    title,
    async () => {
      const left = new Set(Object.keys(commands));
      const lines = new Proxy({} as { readonly [K in keyof C]: string }, {
        get(_, name: string) {
          left.delete(name);
          return fill(commands[name]!);
        },
      });
      await run(lines);
      expect([...left]).toEqual([]);
    },
    300_000,
  );
}

const shownOf = (command: string | Filled): string => (typeof command === "string" ? command : command[0]);

function fill(command: string | Filled): string {
  if (typeof command === "string") return command;
  const [shown, values] = command;
  return Object.entries(values).reduce((line, [placeholder, value]) => {
    if (!line.includes(placeholder)) throw new Error(`${line} does not have ${placeholder}`);
    return line.replaceAll(placeholder, value);
  }, shown);
}
