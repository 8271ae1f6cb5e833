import { DeployError } from "./errors.ts";
import { run, SHELL } from "./exec.ts";
import type { DeployTools } from "./tools.ts";
import { withoutLineEnd } from "./without-line-end.ts";

/** A secret whose value a command prints, such as that of a password manager. */
export interface CommandSecret {
  readonly name: string;
  readonly command: string;
}

/** What a run has asked for: a password manager may want a person's consent each time. */
const answers = new WeakMap<DeployTools, Map<string, Promise<string>>>();

/**
 * The value that the command of a secret prints, without the line break at its end. The command runs once, on this machine,
 * in the project's folder; what it prints is shown nowhere. Rejects with `bad_config` if it fails or prints nothing.
 */
export function valueFromCommand(secret: CommandSecret, tools: DeployTools, cwd: string): Promise<string> {
  const known = answers.get(tools) ?? new Map<string, Promise<string>>();
  answers.set(tools, known);
  const asked = known.get(secret.command) ?? ask(secret, tools, cwd);
  known.set(secret.command, asked);
  return asked;
}

async function ask({ name, command }: CommandSecret, tools: DeployTools, cwd: string): Promise<string> {
  const [shell = "", ...args] = SHELL;
  // Not by `tools.exec`, which shows and logs each line.
  const { code, stdout, stderr } = await run(shell, [...args, command], {
    ...{ cwd, env: tools.env, signal: tools.signal },
  });
  const value = withoutLineEnd(stdout);
  if (value !== undefined) tools.redact(value);
  if (code === 0 && value !== undefined) return value;
  const what = code === 0 ? "printed nothing" : `failed: exit code ${code}`;
  throw new DeployError("bad_config", `The command of secret ${name} ${what}`, {
    outcome: "Nothing was changed",
    log: stderr
      .split("\n")
      .filter((line) => line.trim() !== "")
      .slice(-10),
    fix: `Run it here by hand, and sign in to what it asks: ${command}`,
  });
}
