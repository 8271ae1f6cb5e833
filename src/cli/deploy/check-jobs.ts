import { join } from "node:path";
import { parseJson } from "../../core/base/parse-json.ts";
import type { CheckedJob } from "../../core/runs/check/check-job.ts";
import type { Deployment } from "../../deploy/deployment.ts";
import { run } from "../../deploy/exec.ts";
import type { CheckJobs, JobCheck } from "../../deploy/held-jobs.ts";
import type { CheckReport } from "../check/report.ts";
import type { CliContext } from "../context.ts";

/** Checks by `svc check` in a process of its own: the code to be deployed runs in it, with the variables that it will have. */
export function checkJobsWith(
  { self, cwd, env }: CliContext,
  { options, config, tools }: Pick<Deployment, "options" | "config" | "tools">,
): CheckJobs {
  const [program, ...args] = self;
  const { sourceDir = "src", controllerFile = "controller.ts" } = options;
  return async (jobs) => {
    if (program === undefined) return { known: false, reason: "svc cannot be started from here" };
    const secrets = config.secrets.flatMap(({ name, value }) => (value ? [[name, value]] : []));
    const { stdout, stderr } = await run(
      program,
      [...args, "check", join(sourceDir, controllerFile), "--jobs", "-", "--json"],
      {
        cwd,
        env: { ...env, ...Object.fromEntries(secrets), ...config.environment },
        input: jobs,
        signal: tools.signal,
      },
    );
    const document = lastDocument(stdout);
    if (isReport(document)) return toCheck(document);
    const said = (document as { error?: unknown } | undefined)?.error;
    const [line = "svc check failed"] = (typeof said === "string" ? said : stderr).trim().split("\n");
    return { known: false, reason: line || "svc check failed" };
  };
}

function toCheck({ jobs, problems, unsure }: CheckReport): JobCheck {
  return { known: true, jobs, problems: problems.map(describe), unsure: unsure.map(describe) };
}

function describe({ id, verdict, expected, found, message }: CheckedJob): string {
  return expected === null
    ? `${id}: ${verdict}: ${message}`
    : `${id}: ${verdict}: recorded ${expected}, now ${found ?? "ended"}`;
}

function isReport(document: unknown): document is CheckReport {
  const { problems, unsure } = (document ?? {}) as Partial<CheckReport>;
  return Array.isArray(problems) && Array.isArray(unsure);
}

/** The document that `--json` prints last: the code itself may print before it. */
function lastDocument(text: string): unknown {
  return parseJson(text.slice(text.lastIndexOf("\n{\n") + 1));
}
