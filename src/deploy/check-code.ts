import { isNumberedKey } from "../core/base/numbered-keys.ts";
import { parseJson } from "../core/base/parse-json.ts";
import { SERVICE_SECRETS, secretsOnlyOf } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import { step, warn } from "./events.ts";

/** The code to be deployed, and what it will find where it runs. */
export interface CodeToCheck {
  /** Program and arguments that run svc again. @default the code is not checked */
  readonly self: readonly string[] | undefined;
  readonly cwd: string;
  /** The controller, relative to `cwd`. */
  readonly file: string;
  /** Plain variables of the service. */
  readonly variables: Readonly<Record<string, string>>;
  /** Names of its secrets: their values need not be here. */
  readonly secrets: readonly string[];
  /** The current state, as text. */
  readonly outcome: string;
  /** Whether code that cannot be loaded is only reported. @default false */
  readonly onlyWarn?: boolean;
}

/** Seconds for a start of the process and the imports of the code. */
const PATIENCE = 120;

/** Loads the code in a process of its own, by `svc check --code`. Rejects if it cannot be loaded. */
export async function guardCode(
  { config, emit, tools, limits }: Pick<Deployment, "config" | "emit" | "tools" | "limits">,
  { self = [], cwd, file, variables, secrets, outcome, onlyWarn = false }: CodeToCheck,
): Promise<void> {
  const [program, ...args] = self;
  if (program === undefined) return;
  for (const { value } of config.secrets) if (value) tools.redact(value);
  for (const name of [...secretsOnlyOf(tools.env), ...secrets])
    if (tools.env[name]) tools.redact(tools.env[name]);
  // A platform may fill in references, such as ${APP_URL}: their values exist only there.
  const isReference = (value: string) => /\$\{/.test(value);
  const known = Object.entries(variables).filter(([, value]) => !isReference(value));
  const references = Object.keys(variables).filter((name) => isReference(variables[name] ?? ""));
  // The service makes or takes these by itself: code can be loaded without them.
  const own: readonly string[] = [...SERVICE_SECRETS, "SERVICE_PUBLIC_URL"];
  const lacking = [...secrets, ...references]
    .filter((name) => !own.includes(name) && !isNumberedKey(name))
    .flatMap((name) => ["--secret", name]);
  const whenOver = () => refusal(file, outcome, [`it was not loaded within ${PATIENCE} s`]);
  await step(emit, "code", async ({ note }) => {
    const { code, stdout, stderr } = await limits.within(PATIENCE, whenOver, () =>
      tools.exec(program, [...args, "check", file, "--code", "--json", ...lacking], {
        ...{ cwd, env: Object.fromEntries(known) },
      }),
    );
    const found = readReport(stdout);
    const count = found?.agents?.length;
    if (code === 0 && count !== undefined)
      return note(`${count} ${count === 1 ? "agent" : "agents"} in ${file}`);
    if (code === 0 && found?.needs)
      return warn(
        emit,
        `${file} was not checked: it reads ${found.needs.join(", ")}, not set here, and failed with: ${found.error?.split("\n")[0]}`,
      );
    const lines = stderr.split("\n").filter((line) => line.trim() !== "");
    if (onlyWarn) return warn(emit, `${file} cannot be loaded before hooks.beforeBuild: ${lines[0] ?? ""}`);
    throw refusal(file, outcome, lines.slice(-20));
  });
}

interface Report {
  readonly agents?: readonly string[] | null;
  readonly needs?: readonly string[];
  readonly error?: string | null;
}

/** The document that `--json` prints last: the code itself may print before it. */
function readReport(text: string): Report | undefined {
  return parseJson(text.slice(text.lastIndexOf("\n{\n") + 1)) as Report | undefined;
}

function refusal(file: string, outcome: string, lines: readonly string[]): DeployError {
  return new DeployError("bad_code", `svc check rejects ${file}: it cannot be loaded`, {
    detail: lines.join("\n"),
    outcome,
    fix: "Fix it, or install what it needs here (svc check --code shows the same). If it can only be loaded where it will run, add --no-check",
  });
}
