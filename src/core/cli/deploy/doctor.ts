import * as v from "valibot";
import { doctor } from "../../deploy/doctor.ts";
import { EXIT } from "../../deploy/errors.ts";
import { defineCommand } from "../command.ts";
import { findingLines } from "./findings.ts";
import * as flags from "./flags.ts";
import type { PlatformCommand } from "./main.ts";
import { openFrom, withShell } from "./session.ts";

/** `svc deploy doctor`: looks at everything that a deployment needs. */
export const doctorCommand: PlatformCommand = ({ entries, platform }) =>
  defineCommand({
    usage: "doctor",
    summary: "Look at everything that a deployment needs, and say how to mend what is missing",
    flags: v.object({
      ...flags.TARGET_FLAGS,
      ...flags.SOURCE_FLAGS,
      ...flags.VERBOSE,
      ...flags.JSON_FLAG,
      ...entries,
    }),
    examples: ["svc deploy doctor --platform cloud-run"],
    run: ({ flags: given, context }) =>
      withShell(context, given, async (shell) => {
        const deployment = await openFrom(shell, platform(), given, "svc deploy doctor");
        try {
          const findings = await doctor(deployment);
          const bad = findings.some((finding) => finding.level === "error");
          shell.progress.clear();
          if (shell.json) shell.document({ ok: !bad, findings });
          else {
            const { target, sources } = deployment;
            shell.print(`Region ${target.region} (${sources.region})`);
            if (target.projectId !== undefined)
              shell.print(`Project ${target.projectId} (${sources.projectId})`);
            for (const line of findingLines(findings, shell.paint)) shell.print(line);
          }
          return bad ? EXIT.preflight : EXIT.done;
        } finally {
          await deployment.close();
        }
      }),
  });
