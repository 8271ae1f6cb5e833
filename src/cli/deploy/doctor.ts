import * as v from "valibot";
import { createDeployTools } from "../../deploy/create-tools.ts";
import { doctor, machineFindings } from "../../deploy/doctor.ts";
import { type DeployError, EXIT, isDeployError } from "../../deploy/errors.ts";
import type { Finding } from "../../deploy/platform.ts";
import { defineCommand } from "../command.ts";
import { findingLines } from "./findings.ts";
import * as flags from "./flags.ts";
import { hintedFindings } from "./hints.ts";
import type { PlatformCommand } from "./platform-command.ts";
import { tellResult } from "./result.ts";
import { openFrom, type Shell, withShell } from "./session.ts";

/** `svc deploy doctor`: checks everything that a deployment needs. */
export const doctorCommand: PlatformCommand = ({ entries, platform }) =>
  defineCommand({
    usage: "doctor",
    summary: "Check everything that a deployment needs, and say how to fix what is missing",
    flags: v.object({
      ...flags.COMMON,
      ...flags.TARGET_FLAGS,
      ...flags.SOURCE_FLAGS,
      storage: flags.RELEASE_FLAGS.storage,
      ...flags.VERBOSE,
      ...flags.JSON_FLAG,
      ...flags.forCommand(entries, "doctor"),
    }),
    examples: ["svc deploy doctor --platform cloud-run"],
    run: ({ flags: given, context }) =>
      withShell(context, given, { verb: "doctor", platform: platform() }, async (shell) => {
        const opened = await openFrom(shell, platform(), given, "svc deploy doctor").catch(unreachable);
        if (isDeployError(opened)) {
          const tools = createDeployTools({ cwd: context.cwd, env: context.env });
          const { message, fix } = opened;
          const findings = await machineFindings({ tools, cwd: context.cwd, options: given });
          return tell(shell, [
            ...findings,
            { level: "error", subject: platform().name, message, ...(fix ? { fix } : {}) },
          ]);
        }
        const findings: Finding[] = [];
        const [{ target, sources } = {}] = opened;
        const where = [`Region ${target?.region} (${sources?.region})`];
        if (target?.projectId !== undefined)
          where.push(`Project ${target.projectId} (${sources?.projectId})`);
        try {
          for (const one of opened) {
            const found = await doctor(one);
            const named = (subject: string) =>
              one.place === undefined ? subject : `${subject} (${one.place})`;
            findings.push(...found.map((finding) => ({ ...finding, subject: named(finding.subject) })));
          }
          return tell(shell, findings, where);
        } finally {
          for (const one of opened) await one.close();
        }
      }),
  });

/**
 * A platform that cannot be reached, because a login or a package is missing, is a finding like any other.
 */
function unreachable(error: unknown): DeployError {
  if (isDeployError(error) && error.exitCode === EXIT.preflight) return error;
  throw error;
}

function tell(shell: Shell, found: readonly Finding[], place: readonly string[] = []): number {
  const findings = hintedFindings(found, shell.hint);
  const bad = findings.some((finding) => finding.level === "error");
  const done = tellResult(shell, {
    document: { ok: !bad, findings },
    lines: [...place, ...findingLines(findings, shell.paint)],
  });
  return bad ? EXIT.preflight : done;
}
