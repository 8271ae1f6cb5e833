import { DeployError } from "./errors.ts";
import type { DeployTools, ExecInput, ExecResult } from "./tools.ts";

/** A value of a command line: one word, or one word for each entry of a list. */
export type Word = string | number | readonly (string | number)[];

/** A program whose words are written as a template. No shell reads them: a value stays the word it is. */
export interface Command {
  /** Runs it; resolves with what it printed, without the spaces around, and rejects where it fails. */
  (template: TemplateStringsArray, ...values: readonly Word[]): Promise<string>;
  /** The same with this on its standard input: the way for a secret, which is never a word. */
  input(content: ExecInput): Command;
}

const LAST_LINES = 25;

/**
 * Makes a command of a program and the words that it always begins with.
 *
 * @example
 * const docker = createCommand(tools, "docker", "--host", host);
 * const id = await docker`run --detach --name ${name} ${variables.flatMap((each) => ["--env", each])} ${image}`;
 */
export function createCommand(tools: DeployTools, program: string, ...first: readonly string[]): Command {
  const withInput = (input: ExecInput): Command =>
    Object.assign(
      async (template: TemplateStringsArray, ...values: readonly Word[]) => {
        const words = toWords(template, values);
        const result = await tools.exec(program, [...first, ...words], { input });
        if (result.code === 0) return result.stdout.trim();
        throw failed(`${program} ${(template[0] ?? "").trim().split(/\s+/)[0]}`, result);
      },
      { input: withInput },
    );
  return withInput("");
}

/** The words of a template: its text parts at spaces, its values never. */
function toWords(template: TemplateStringsArray, values: readonly Word[]): string[] {
  const words: string[] = [];
  // A word that a value may still go on with, as in `--name=${name}`.
  let open: string | undefined;
  const close = () => {
    if (open !== undefined) words.push(open);
    open = undefined;
  };
  template.forEach((text, index) => {
    for (const part of text.split(/(\s+)/)) {
      if (/^\s+$/.test(part)) close();
      else if (part !== "") open = (open ?? "") + part;
    }
    const value = values[index];
    if (Array.isArray(value)) {
      close();
      words.push(...value.map(String));
    } else if (value !== undefined) open = (open ?? "") + String(value);
  });
  close();
  return words;
}

function failed(what: string, { code, stdout, stderr }: ExecResult): DeployError {
  const lines = `${stdout}\n${stderr}`.split(/\r?\n/).filter((line) => line.trim() !== "");
  return new DeployError("failed", `${what} ended with exit code ${code}`, {
    detail: (stderr.trim() || stdout.trim()).split(/\r?\n/).at(-1),
    log: lines.slice(-LAST_LINES),
  });
}
