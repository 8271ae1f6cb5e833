import { option } from "../../core/base/option.ts";
import { guardCode } from "../../deploy/check-code.ts";
import { putComment } from "../../deploy/ci/comment.ts";
import type { Deployment } from "../../deploy/deployment.ts";
import { EXIT } from "../../deploy/errors.ts";
import { warn } from "../../deploy/events.ts";
import { firstUp } from "../../deploy/first-up.ts";
import { unknownKey } from "../../deploy/known-key.ts";
import { whereOf } from "../../deploy/not-deployed.ts";
import { describeOpenWork, mayLose, type OpenWork } from "../../deploy/open-work.ts";
import { following } from "../../deploy/places.ts";
import { prepare } from "../../deploy/plan.ts";
import { planMarkdown } from "../../deploy/plan-markdown.ts";
import * as flags from "./flags.ts";
import { hintedFindings } from "./hints.ts";
import { planTable } from "./plan-table.ts";
import { platformCommand } from "./platform-command.ts";
import type { Shell } from "./session.ts";

/** `svc deploy plan`: shows what `up` would do, and changes nothing. */
export const planCommand = platformCommand({
  usage: "plan",
  summary: "Check the configuration and show what a deployment would do, without changing anything",
  flags: {
    ...flags.TARGET_FLAGS,
    ...flags.RELEASE_FLAGS,
    markdown: option.flag("print the plan as a short table in Markdown"),
    comment: option.flag(
      "in a job of GitHub or GitLab: write it as a comment of the pull request, or update that comment",
    ),
    readOnly: option.flag("warn of rights that only a deployment needs: for a login that may only read"),
    detailedExitcode: option.flag("exit with 2 if there are changes, with 0 if there are none"),
    ...flags.CHECK,
    ...flags.VERBOSE,
    ...flags.JSON_FLAG,
  },
  examples: [
    "svc deploy plan --platform cloud-run",
    "svc deploy plan --platform cloud-run --env prod --detailed-exitcode",
  ],
  run: async ({ shell, deployment: mine, given, first }) => {
    const deployment = first === undefined ? mine : await following(mine, first, { readOnly: true });
    const prepared = await prepare(deployment, { readOnly: given.readOnly === true });
    const { plan, changes, drift, findings, openWork, live } = prepared;
    if (!prepared.imageCurrent)
      await guardCode(deployment, {
        ...{ self: given.check === false ? undefined : shell.context.self, cwd: deployment.target.cwd },
        ...{ file: prepared.project.controller, variables: prepared.spec.env },
        ...{ secrets: Object.keys(prepared.spec.secrets), outcome: "Nothing was changed" },
        // The hook, which `plan` does not run, may write a part of the code.
        onlyWarn: deployment.config.hooks?.beforeBuild !== undefined,
      });
    const keyless = changes ? unknownKey(deployment, prepared.secrets) : undefined;
    if (keyless !== undefined)
      warn(shell.emit, `${keyless.message}. svc deploy up will refuse this`, keyless.fix);
    if (mayLose(openWork))
      warn(
        shell.emit,
        `${describeOpenWork(openWork, plan.service_name)}; svc deploy up will require --accept-data-loss`,
      );
    shell.progress.clear();
    const isMarkdown = given.markdown === true || given.comment === true;
    const text = isMarkdown ? planMarkdown(plan, { changes, notes: [...drift, ...lossOf(openWork)] }) : "";
    if (given.comment === true) await comment(shell, deployment, text);
    if (shell.json)
      shell.document({
        ...plan,
        changes,
        drift,
        findings: hintedFindings(findings, shell.hint),
        open_work: openWork ?? null,
      });
    else if (given.markdown === true) for (const line of text.split("\n")) shell.print(line);
    else {
      shell.print("");
      for (const line of planTable(plan, whereOf(deployment), shell.paint)) shell.print(line);
      shell.print("");
      shell.print(
        changes
          ? shell.hint(`Apply it: ${live === undefined ? await firstUp(deployment) : "svc deploy up"}`)
          : "Nothing to do: everything is up to date.",
      );
    }
    return given.detailedExitcode === true && changes ? EXIT.changesPending : EXIT.done;
  },
});

const lossOf = (openWork: OpenWork | undefined): string[] =>
  mayLose(openWork) && openWork ? [describeOpenWork(openWork, "the service")] : [];

async function comment(shell: Shell, { target, tools, place }: Deployment, text: string): Promise<void> {
  const mark = ["svc deploy plan", target.serviceName, place].filter(Boolean).join(" ");
  const { env } = shell.context;
  for (const name of ["GITHUB_TOKEN", "SVC_COMMENT_TOKEN"]) if (env[name]) tools.redact(env[name]);
  const done = await putComment({ mark, text: shell.redactor.text(text) }, tools);
  if (typeof done === "string") shell.context.note(`The comment with the plan was ${done}`);
  else shell.context.note(`No comment was written: ${done.skipped}`);
}
