import { secretsOnlyOf } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import { step } from "./events.ts";
import { SHELL } from "./exec.ts";

/** When commands of `deploy.yaml` run. */
export type HookName = "beforeBuild" | "afterRelease";

/**
 * Runs the project's own command, on this machine and in the project's folder, with these variables and without secrets
 * of the service. Rejects if it fails.
 */
export async function runHook(
  { config, emit, tools, target }: Deployment,
  name: HookName,
  { env, outcome }: { readonly env: Readonly<Record<string, string>>; readonly outcome: string },
): Promise<void> {
  const command = config.hooks?.[name];
  if (command === undefined) return;
  const [shell = "", ...args] = SHELL;
  const secrets = [
    ...secretsOnlyOf(tools.env),
    ...config.secrets.flatMap(({ name, source = name }) => [name, source]),
  ];
  const without = Object.fromEntries(secrets.map((secret) => [secret, undefined]));
  await step(emit, name, async () => {
    const { code, stdout, stderr } = await tools.exec(shell, [...args, command], {
      cwd: target.cwd,
      env: { ...env, ...without },
    });
    if (code === 0) return;
    throw new DeployError("failed", `The command of hooks.${name} failed: exit code ${code}`, {
      outcome,
      log: `${stdout}\n${stderr}`
        .split("\n")
        .filter((line) => line.trim() !== "")
        .slice(-20),
      fix: "Fix the command in deploy.yaml, or what it runs, and run svc deploy up again: it runs the command again",
    });
  });
}
