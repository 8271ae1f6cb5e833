import { spawn } from "node:child_process";
import { constants } from "node:os";
import { DeployError } from "../../deploy/errors.ts";
import { requireDeployed } from "../../deploy/not-deployed.ts";
import * as flags from "./flags.ts";
import { platformCommand } from "./platform-command.ts";
import { inEach } from "./several.ts";

/** `svc deploy exec`: a command, or a shell, in the container that serves. */
export const execCommand = platformCommand({
  usage: "exec [...command]",
  summary: "Run a command in the container that serves; without one, a shell",
  flags: { ...flags.TARGET_FLAGS },
  examples: ["svc deploy exec --env prod", "svc deploy exec --env prod -- node --version"],
  several: async (runs, run) => {
    if (runs[0]?.args.length !== 0) return inEach(runs, run);
    const names = runs.map(({ deployment }) => deployment.place).join(", ");
    throw new DeployError("usage", "A shell is in one container", {
      fix: `Name one of ${names}, such as with --host`,
    });
  },
  run: async ({ shell, deployment, args }) => {
    const { session, platform, tools } = deployment;
    if (!session.enter)
      throw new DeployError("failed", `svc cannot run commands in a container on platform ${platform.name}`, {
        fix: "svc deploy logs shows what the service wrote; for a shell, use the console of the provider, where it has one",
      });
    await requireDeployed(deployment, "there is no container to run a command in");
    const isTerminal = shell.context.interactive && process.stdout.isTTY === true;
    const command = args.length === 0 ? ["sh"] : args;
    const [program = "", ...words] = await session.enter(command, isTerminal);
    shell.progress.clear();
    return runHere(program, words, tools.env);
  },
});

/** Runs a program with the input and output of this process, unchanged; resolves with its exit code. */
function runHere(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...args], { stdio: "inherit", env: { ...env } });
    child.once("error", reject);
    child.once("close", (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 1)));
  });
}
