import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { previewName } from "../../deploy/ci/short-name.ts";
import { type CiOutcome, writeCi } from "../../deploy/ci/write-ci.ts";
import { EXIT } from "../../deploy/errors.ts";
import { defineCommand } from "../command.ts";
import { UsageError } from "../errors.ts";
import * as flags from "./flags.ts";
import { isGiven, loadPlatform } from "./platforms.ts";
import { tellResult } from "./result.ts";
import { withShell } from "./session.ts";

/** `svc deploy ci`: writes a pipeline for `deploy.yaml`, and shows how its jobs get their rights. */
export const ciCommand = defineCommand({
  usage: "ci [provider] [branch]",
  summary:
    "Write the pipeline of this project: github or gitlab; preview <branch> prints the environment of a branch's preview",
  flags: v.object({
    ...flags.COMMON,
    env: flags.TARGET_FLAGS.env,
    mainBranch: option.text("the branch that is deployed (default: that of git's remote, else main)", "name"),
    ...flags.OVERWRITE,
    ...flags.JSON_FLAG,
  }),
  examples: ["svc deploy ci github --env prod", "svc deploy ci gitlab", "svc deploy ci preview fix/login"],
  run: ({ flags: given, args, context }) => {
    const [provider, branch] = args;
    if (provider === "preview") {
      if (!branch) throw new UsageError("The branch is missing", "Write svc deploy ci preview <branch>.");
      context.print(previewName(branch));
      return Promise.resolve(EXIT.done);
    }
    if ((provider !== "github" && provider !== "gitlab") || branch !== undefined)
      throw new UsageError(
        provider === undefined ? "The provider is missing" : `Unknown provider "${args.join(" ")}"`,
        "Write svc deploy ci github, or gitlab.",
      );
    return withShell(context, given, { verb: "ci" }, async (shell) => {
      const made = await writeCi(provider, {
        cwd: context.cwd,
        env: context.env,
        environment: isGiven(context.argv, "env") ? given.env : undefined,
        branch: given.mainBranch,
        overwrite: given.overwriteFiles,
        loadPlatform: (name) => loadPlatform(name, context),
      });
      return tellResult(shell, { document: { success: true, provider, ...made }, lines: linesOf(made) });
    });
  },
});

function linesOf(made: CiOutcome): string[] {
  const { file, outcome, environment, branch, previews, setup, secrets, notes, repository } = made;
  const done = {
    written: `Wrote ${file}. Commit it.`,
    unchanged: `${file} is up to date.`,
    kept: `${file} was not changed: it was edited, or is your own. --overwrite-files replaces it.`,
  };
  const passedOn = `# Secrets of the repository that jobs pass on, where they are set: ${secrets.join(", ")}`;
  return [
    done[outcome],
    `  ${branch} deploys ${environment}; a pull request shows its plan`,
    ...(previews ? ["  each pull request has a preview, until it is closed"] : []),
    "",
    `# Run this once, logged in to the platform and to ${repository.host}:`,
    ...setup,
    ...(secrets.length > 0 ? ["", passedOn] : []),
    ...(notes.length > 0 ? ["", ...notes.map((note) => `# ${note}`)] : []),
  ];
}
