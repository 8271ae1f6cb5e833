import { option } from "../../core/base/option.ts";
import { commonRelease, lockAll } from "../../deploy/places.ts";
import { rollback } from "../../deploy/rollback.ts";
import * as flags from "./flags.ts";
import { platformCommand } from "./platform-command.ts";
import { tellResult } from "./result.ts";
import { inTurn } from "./several.ts";

/** `svc deploy rollback`: makes an earlier release serve again. */
export const rollbackCommand = platformCommand({
  usage: "rollback",
  summary: "Roll back to the previous release, or to a named revision",
  flags: {
    ...flags.TARGET_FLAGS,
    to: option.text("revision to roll back to (default: the previous one)", "revision"),
    ...flags.DRAIN,
    ...flags.TIMEOUT,
    ...flags.ACCEPT_DATA_LOSS,
    ...flags.BREAK_LOCK,
    ...flags.YES,
    ...flags.VERBOSE,
    ...flags.JSON_FLAG,
  },
  examples: [
    "svc deploy rollback --platform cloud-run",
    "svc deploy rollback --platform cloud-run --to hello-dev-00002-abc",
  ],
  several: async (runs, run) => {
    const all = runs.map(({ deployment }) => deployment);
    await lockAll(all);
    const releases = await commonRelease(all, runs[0]?.given.to as string | undefined);
    return inTurn(runs, async (one) => {
      const to = releases[runs.findIndex(({ deployment }) => deployment === one.deployment)]?.revision;
      if (to !== undefined) return run({ ...one, given: { ...one.given, to } });
      const { place, target } = one.deployment;
      return tellResult(one.shell, {
        document: { success: true, from: null },
        lines: [`${target.serviceName} serves that release on ${place} already`],
      });
    });
  },
  run: async ({ shell, deployment, given }) => {
    const outcome = await rollback(deployment, {
      to: given.to as string | undefined,
      // That of deploy.yaml is for `up`: who rolls back has no time.
      drain: given.drain as string | undefined,
      consent: (from, to) =>
        shell.ask(
          `Roll back from revision ${from.revision} to ${to.revision} (${to.image ?? "image unknown"})?`,
        ),
    });
    const { from, to, release, health, openWork } = outcome;
    const isCopy = to.revision !== undefined && to.revision !== release.revision;
    return tellResult(shell, {
      document: {
        success: true,
        from: from.revision,
        revision: release.revision,
        image: release.image,
        health,
        open_work: openWork ?? null,
      },
      title: isCopy
        ? `Revision ${to.revision} is serving again, as ${release.revision}`
        : `Revision ${release.revision} is serving again`,
      facts: [
        ["URL", release.url],
        ["Health", health.status],
        ["Before", from.revision],
        ["Next", shell.hint("svc deploy up deploys the newest version again")],
      ],
    });
  },
});
