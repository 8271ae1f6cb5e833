import { DeployError, EXIT } from "../../deploy/errors.ts";
import { firstUp } from "../../deploy/first-up.ts";
import type { SetupAction } from "../../deploy/platform.ts";
import { findingLines } from "./findings.ts";
import * as flags from "./flags.ts";
import { hintedFindings } from "./hints.ts";
import { platformCommand } from "./platform-command.ts";
import { tellResult } from "./result.ts";

/** `svc deploy setup`: prepares the machine that a service will be deployed to. */
export const setupCommand = platformCommand({
  usage: "setup",
  summary: "Check and prepare your own server: Docker, the rights to use it, disk and firewall",
  flags: {
    ...flags.TARGET_FLAGS,
    port: flags.RELEASE_FLAGS.port,
    ...flags.YES,
    ...flags.VERBOSE,
    ...flags.JSON_FLAG,
  },
  examples: ["svc deploy setup --platform server --host me@server.example"],
  run: async ({ shell, deployment, given }) => {
    const { session, platform } = deployment;
    if (!session.setup)
      throw new DeployError("usage", `Platform ${platform.name} has no machine of yours to set up`, {
        fix: "svc deploy doctor checks what a deployment needs",
      });
    const consent = async (actions: readonly SetupAction[]): Promise<boolean> => {
      if (given.yes !== true && (shell.json || !shell.context.interactive))
        throw new DeployError("declined", "The server was not set up: there is no terminal to confirm it", {
          detail: actions.map(({ what }) => what).join("\n"),
          outcome: "Nothing was changed",
          fix: "Add --yes to do this without confirmation",
        });
      shell.progress.clear();
      if (!shell.json)
        for (const { what, command } of actions) {
          shell.print(what);
          shell.print(shell.paint("dim", `  ${command}`));
        }
      return shell.ask("Do this on the server?");
    };
    const findings = hintedFindings(await session.setup(consent), shell.hint);
    const ok = findings.every(({ level }) => level !== "error");
    tellResult(shell, { document: { ok, findings }, lines: findingLines(findings, shell.paint) });
    if (!ok) return EXIT.preflight;
    if (!shell.json) {
      const live = await session.inspect();
      shell.print(shell.hint(`Next: ${live === undefined ? await firstUp(deployment) : "svc deploy up"}`));
    }
    return EXIT.done;
  },
});
