import { DeployError } from "./errors.ts";
import { run, SHELL } from "./exec.ts";
import type { DeployTools } from "./tools.ts";
import { withoutLineEnd } from "./without-line-end.ts";

/** A secret whose value a command prints, such as that of a password manager. */
export interface CommandSecret {
  readonly name: string;
  readonly command: string;
}

/** Milliseconds for a command: a person may have to consent. */
const PATIENCE = 120_000;

/** What a run has asked for: a password manager may want a person's consent each time. */
const answers = new WeakMap<DeployTools, Map<string, Promise<string>>>();

/**
 * The value that the command of a secret prints, without the line break at its end. The command runs once, on this machine,
 * in the project's folder; what it prints is shown nowhere. Rejects with `bad_config` if it fails, prints nothing, or does not end in time.
 */
export function valueFromCommand(
  secret: CommandSecret,
  tools: DeployTools,
  cwd: string,
  patience = PATIENCE,
): Promise<string> {
  const known = answers.get(tools) ?? new Map<string, Promise<string>>();
  answers.set(tools, known);
  const asked = known.get(secret.command) ?? ask(secret, tools, { cwd, patience });
  known.set(secret.command, asked);
  return asked;
}

async function ask(
  { name, command }: CommandSecret,
  tools: DeployTools,
  { cwd, patience }: { readonly cwd: string; readonly patience: number },
): Promise<string> {
  const [shell = "", ...args] = SHELL;
  const over = AbortSignal.timeout(patience);
  const fix = `Run it here by hand, and sign in to what it asks: ${command}`;
  // Not by `tools.exec`, which shows and logs each line.
  const { code, stdout, stderr } = await run(shell, [...args, command], {
    ...{ cwd, env: tools.env, signal: AbortSignal.any([tools.signal, over]) },
  }).catch((error: unknown) => {
    if (!over.aborted || tools.signal.aborted) throw error;
    throw new DeployError(
      "bad_config",
      `The command of secret ${name} did not end within ${patience / 1000} s`,
      {
        outcome: "Nothing was changed",
        fix,
      },
    );
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
    fix,
  });
}
