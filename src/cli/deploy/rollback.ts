import { EXIT } from "../../deploy/errors.ts";
import { commonRelease, lockAll } from "../../deploy/places.ts";
import { rollback } from "../../deploy/rollback.ts";
import { facts } from "./facts.ts";
import * as flags from "./flags.ts";
import { platformCommand } from "./platform-command.ts";
import { inTurn } from "./several.ts";

/** `svc deploy rollback`: makes an earlier release serve again. */
export const rollbackCommand = platformCommand({
  usage: "rollback",
  summary: "Roll back to the previous release, or to a named revision",
  flags: {
    ...flags.TARGET_FLAGS,
    to: flags.text("revision to roll back to (default: the previous one)", "revision"),
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
      if (one.shell.json) one.shell.document({ success: true, from: null });
      else one.shell.print(`${target.serviceName} serves that release on ${place} already`);
      return EXIT.done;
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
    shell.progress.clear();
    const { from, to, release, health, openWork } = outcome;
    if (shell.json)
      shell.document({
        success: true,
        from: from.revision,
        revision: release.revision,
        image: release.image,
        health,
        open_work: openWork ?? null,
      });
    else {
      const isCopy = to.revision !== undefined && to.revision !== release.revision;
      shell.print(
        shell.paint(
          "bold",
          isCopy
            ? `Revision ${to.revision} is serving again, as ${release.revision}`
            : `Revision ${release.revision} is serving again`,
        ),
      );
      const lines = facts(shell.paint, [
        ["URL", release.url],
        ["Health", health.status],
        ["Before", from.revision],
        ["Next", shell.hint("svc deploy up deploys the newest version again")],
      ]);
      for (const line of lines) shell.print(line);
    }
    return EXIT.done;
  },
});
