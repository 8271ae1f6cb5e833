import type { ResourceAction } from "../core/models/deployment.ts";
import { RELEASE } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import { step } from "./events.ts";
import type { ReleaseSpec } from "./platform.ts";

/** Its name in the journal. */
const STEP = "release command";
/** Lines of its output that the report of a failure has. */
const MOST_LINES = 20;

/** Rejects where the platform cannot run a command in the image of a release. */
export function checkReleaseCommand({ config, session, platform }: Deployment): void {
  if (config.release === undefined || session.runOnce) return;
  throw new DeployError("bad_config", `release: ${platform.name} cannot run a command before a release`, {
    outcome: "Nothing was changed",
    fix: "Remove it from deploy.yaml, or give only the environments on a server of your own one; elsewhere, run the command in your pipeline, before svc deploy up",
  });
}

/** The command in the plan of a release. */
export function releaseCommandActions({ config: { release } }: Deployment): ResourceAction[] {
  if (release === undefined) return [];
  return [
    {
      resource_type: "command",
      action_type: "create",
      resource_name: release,
      description: "runs once in the new image, before it gets traffic",
      ...{ cost_estimate: null, metadata: null },
    },
  ];
}

/**
 * Runs the release command in the new image while the former release serves; rejects if it fails. A resumed run does not run
 * it again once it has succeeded for the same release; where that is unknown, it does.
 */
export async function runReleaseCommand(
  { config: { release: command }, session, journal, emit }: Deployment,
  spec: ReleaseSpec,
): Promise<void> {
  const { runOnce } = session;
  if (command === undefined || !runOnce) return;
  const data = { command, of: spec.env[RELEASE] ?? spec.image };
  await step(emit, "releaseCommand", async ({ skip }) => {
    const before = journal.recall(STEP);
    if (before?.phase === "end" && before.data.command === command && before.data.of === data.of)
      return skip("it has succeeded before this run was resumed");
    const log: string[] = [];
    await journal.record({ step: STEP, data }, async () => {
      const code = await runOnce(spec, command, (line) => {
        if (line.trim() !== "") log.push(line);
        if (log.length > MOST_LINES) log.shift();
      });
      if (code === 0) return;
      throw new DeployError("failed", `The release command failed: exit code ${code}`, {
        log,
        fix: "Fix the command of release in deploy.yaml, or what it runs, and run svc deploy up again: it runs the command again",
      });
    });
  });
}
