import { resolve } from "node:path";
import { countOf } from "../../core/base/count-of.ts";
import { option } from "../../core/base/option.ts";
import { VERSION } from "../../core/http/service-state.ts";
import { describeStorageUrl } from "../../core/storage/storage-url.ts";
import { writeGeneration } from "../../core/store/backup/generation.ts";
import { saveBackup } from "../../core/store/maintenance.ts";
import { requireDeployed } from "../../deploy/not-deployed.ts";
import type { PlatformSession } from "../../deploy/platform.ts";
import { UsageError } from "../errors.ts";
import { openNamed } from "../store/named-storage.ts";
import * as flags from "./flags.ts";
import { platformCommand } from "./platform-command.ts";
import { tellResult } from "./result.ts";
import { inAny } from "./several.ts";

/** Whether a backup's place is a storage; else it is a folder here. */
export const isStorage = (place: string) => place.includes("://");

/** `svc deploy backup`: a consistent copy of a server's jobs and cases. */
export const backupCommand = platformCommand({
  usage: "backup",
  summary:
    "Copy the jobs and cases of a service on your own server to a folder or a bucket, and verify the copy",
  flags: {
    ...flags.TARGET_FLAGS,
    to: option.text(
      "empty folder, or s3://bucket/prefix?region=…, gs://bucket/prefix, file:///folder",
      "place",
    ),
    ...flags.VERBOSE,
    ...flags.JSON_FLAG,
  },
  examples: [
    "svc deploy backup --platform server --host me@server.example --to backups/monday",
    "svc deploy backup --env prod --to s3://agents-backup/production?region=eu-central-1",
  ],
  several: inAny,
  run: async ({ shell, deployment, given }) => {
    const to = given.to as string | undefined;
    if (to === undefined) throw new UsageError("Option --to is missing", "Name a folder or a storage.");
    const { session } = deployment;
    const storage = isStorage(to) ? openNamed(to, shell.context) : undefined;
    const backup = ability(deployment.platform.name, session.backup);
    await requireDeployed(deployment, "there is nothing that could send a backup");
    const send = backup();
    const { bytes, lines, ...rest } =
      storage === undefined
        ? await saveBackup(send, resolve(shell.context.cwd, to))
        : await writeGeneration(storage, () => send, { now: new Date(), version: VERSION });
    const place = storage === undefined ? to : describeStorageUrl(to);
    const id = "id" in rest ? rest.id : null;
    return tellResult(shell, {
      document: { success: true, to: place, bytes, lines, id },
      title: `Backup of ${deployment.target.serviceName}: ${countOf(lines, "line")}, no damage`,
      facts: [
        ["To", place],
        ["Backup", id],
        ["Size", `${(bytes / 1e6).toFixed(1)} MB`],
      ],
    });
  },
});

/** What a session of a platform on the user's own machine can do. */
export function ability<K extends PlatformSession["backup"] | PlatformSession["restore"]>(
  platform: string,
  found: K,
): NonNullable<K> {
  if (found) return found;
  throw new UsageError(
    `Platform ${platform} stores no jobs beside the service`,
    "svc store backup and svc store restore copy those of a database.",
  );
}
