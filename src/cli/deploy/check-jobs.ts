import { execFile } from "node:child_process";
import { join } from "node:path";
import type { CheckJobs, JobCheck } from "../../deploy/held-jobs.ts";
import type { DeployOptions } from "../../deploy/options.ts";
import type { CheckReport } from "../check/report.ts";
import type { CliContext } from "../context.ts";

/** Checks by `svc check` in a process of its own: the code to be deployed runs in it. */
export function checkJobsWith(
  { self, cwd, env }: CliContext,
  {
    sourceDir = "src",
    controllerFile = "controller.ts",
  }: Pick<DeployOptions, "sourceDir" | "controllerFile">,
): CheckJobs {
  const [program, ...args] = self;
  return (url, key) =>
    new Promise<JobCheck>((resolve) => {
      if (program === undefined) return resolve({ known: false, reason: "svc cannot be started from here" });
      const command = [...args, "check", join(sourceDir, controllerFile), "--url", url, "--json"];
      const options = { cwd, env: { ...env, SERVICE_API_KEY: key }, maxBuffer: 256 * 1024 * 1024 };
      execFile(program, command, options, (error, stdout, stderr) => {
        const report = readReport(stdout);
        if (report) return resolve(toCheck(report));
        const lines = (readError(stdout) ?? (stderr || (error?.message ?? ""))).trim().split("\n");
        resolve({ known: false, reason: lines[0] ?? "svc check failed" });
      });
    });
}

function toCheck({ jobs, problems }: CheckReport): JobCheck {
  return {
    known: true,
    jobs,
    problems: problems.map(({ id, verdict, expected, found, message }) =>
      expected === null
        ? `${id}: ${verdict}: ${message}`
        : `${id}: ${verdict}: recorded ${expected}, now ${found ?? "ended"}`,
    ),
  };
}

function readReport(text: string): CheckReport | undefined {
  const read = readJson(text) as Partial<CheckReport> | undefined;
  return Array.isArray(read?.problems) ? (read as CheckReport) : undefined;
}

/** What `svc check --json` says where it could not check. */
function readError(text: string): string | undefined {
  const read = readJson(text) as { error?: unknown } | undefined;
  return typeof read?.error === "string" ? read.error : undefined;
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
