import { DeployError } from "./errors.ts";
import type { DeployTools, ExecInput, ExecResult } from "./tools.ts";

/** A value of a command line: one argument, or one argument per entry of a list. */
export type Word = string | number | readonly (string | number)[];

/**
 * A program whose arguments are written as a template. No shell is involved: each value stays one argument.
 */
export interface Command {
  /** Runs it; resolves with its trimmed output, and rejects if it fails. */
  (template: TemplateStringsArray, ...values: readonly Word[]): Promise<string>;
  /** The command with this on its standard input: use it for secrets, which must never be arguments. */
  input(content: ExecInput): Command;
}

const LAST_LINES = 25;

/**
 * Creates a command from a program and the arguments that it always starts with.
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

/** The arguments of a template: text parts are split at spaces, values never. */
function toWords(template: TemplateStringsArray, values: readonly Word[]): string[] {
  const words: string[] = [];
  // An argument that a value may still extend, as in `--name=${name}`.
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
