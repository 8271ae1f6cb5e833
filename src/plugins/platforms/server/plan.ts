import type { ResourceAction } from "../../../core/models/deployment.ts";
import { DeployError } from "../../../deploy/errors.ts";
import type { Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { releaseActions, resourceAction } from "../cloud/actions.ts";
import type { Releasing } from "./change.ts";
import { namesOf, onServer } from "./context.ts";
import { hasDatabase } from "./database.ts";
import { portFindings } from "./preflight.ts";
import { isServed } from "./proxy.ts";
import { parseRecord, settingChanges, wantedSettings } from "./record.ts";

/** What a release would change. */
export async function planRelease(
  context: Releasing,
  spec: ReleaseSpec,
  live: Release | undefined,
): Promise<ResourceAction[]> {
  const { serviceName } = context.target;
  const before = live === undefined ? undefined : parseRecord(String(live.data?.record));
  const settings = wantedSettings(context.target, spec.port, before);
  const stopped =
    live === undefined || live.status.startsWith("running")
      ? []
      : [{ field: "status", from: live.status, to: "running" }];
  // A run was killed after it had started the container: nobody knows yet whether it becomes healthy, and no rollback would keep it.
  const unfinished =
    live?.data?.unfinished === true ? [{ field: "container", from: "started", to: "checked and kept" }] : [];
  if (settings.domain === undefined && before?.port !== spec.port) {
    const [taken] = await portFindings(context, spec.port, settings.bind);
    if (taken !== undefined)
      throw new DeployError("preflight", `${taken.subject}: ${taken.message}`, {
        outcome: "Nothing was changed",
        ...(taken.fix === undefined ? {} : { fix: taken.fix }),
      });
  }
  const { data } = namesOf(serviceName);
  const names = await onServer(
    context,
    "The volumes of the server could not be read",
    "docker volume ls --quiet",
  );
  return [
    resourceAction(
      "volume",
      data,
      names.split("\n").includes(data),
      `${settings.postgres === undefined ? "Jobs and cases" : "Files"}, kept over updates and restarts`,
    ),
    ...(settings.postgres === undefined
      ? []
      : [
          resourceAction(
            "database",
            settings.postgres,
            await hasDatabase(context, settings),
            "Jobs and cases, in a Postgres beside the service with a volume of its own",
          ),
        ]),
    ...(settings.domain === undefined
      ? []
      : [
          resourceAction(
            "proxy",
            settings.domain,
            await isServed(context, settings),
            "HTTPS, by the server's Caddy",
          ),
        ]),
    ...releaseActions({
      serviceName,
      spec,
      live,
      changes: [...settingChanges(settings, before), ...stopped, ...unfinished],
    }),
  ];
}
