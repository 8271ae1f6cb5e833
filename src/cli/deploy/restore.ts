import { createHash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve, sep } from "node:path";
import { countOf } from "../../core/base/count-of.ts";
import { option } from "../../core/base/option.ts";
import { readGeneration } from "../../core/store/backup/generation.ts";
import { findGeneration } from "../../core/store/backup/generations.ts";
import { restoreStore, saveBackup } from "../../core/store/maintenance.ts";
import { DeployError } from "../../deploy/errors.ts";
import { requireDeployed } from "../../deploy/not-deployed.ts";
import { type TarEntry, toTar } from "../../deploy/tar.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { openNamed } from "../store/named-storage.ts";
import { ability, isStorage } from "./backup.ts";
import * as flags from "./flags.ts";
import { platformCommand } from "./platform-command.ts";
import { tellResult } from "./result.ts";
import { inFirst } from "./several.ts";

/** `svc deploy restore`: replaces a server's jobs and cases by those of a backup. */
export const restoreCommand = platformCommand({
  usage: "restore",
  summary:
    "Replace the jobs and cases of a service on your own server by those of a backup; the service is stopped meanwhile",
  flags: {
    ...flags.TARGET_FLAGS,
    from: option.text("folder of a backup, or a storage that has backups", "place"),
    at: option.text(
      "with a storage: the newest backup of this time or before it (default: the newest)",
      "time",
    ),
    ...flags.BREAK_LOCK,
    ...flags.YES,
    ...flags.VERBOSE,
    ...flags.JSON_FLAG,
  },
  examples: [
    "svc deploy restore --platform server --host me@server.example --from backups/monday",
    "svc deploy restore --env prod --from s3://agents-backup/production?region=eu-central-1 --at 2026-03-01T09:30:00Z",
  ],
  several: inFirst,
  run: async ({ shell, deployment, given }) => {
    const { from, at } = given as { from?: string; at?: string };
    if (from === undefined)
      throw new UsageError("Option --from is missing", "Name the folder of a backup, or a storage.");
    if (at !== undefined && (!isStorage(from) || Number.isNaN(Date.parse(at))))
      throw new UsageError(`--at ${at}: it needs a storage, and a time such as 2026-03-01T09:30:00Z`);
    const { session, journal, target } = deployment;
    const restore = ability(deployment.platform.name, session.restore);
    await requireDeployed(deployment, "there is nothing to restore into");
    const folder = await mkdtemp(join(tmpdir(), "svc-restore-"));
    try {
      const { lines } = await fetchBackup(from, at, folder, shell.context);
      shell.needYes("svc deploy restore");
      const question = `Replace the jobs and cases of ${target.serviceName} by this backup (${countOf(lines, "line")})? It is stopped meanwhile.`;
      if (!(await shell.ask(question)))
        throw new DeployError("declined", "Not restored", { outcome: "Nothing was changed" });
      await deployment.lock();
      const former = await restore(toTar(await archive(folder)));
      return tellResult(shell, {
        document: { success: true, lines, former },
        title: `${target.serviceName} runs with the backup, and is healthy`,
        facts: [
          ["Restored", countOf(lines, "line")],
          ["Before", `what was there is in ${former}: remove it when you no longer need it`],
        ],
      });
    } finally {
      // Nothing has to be continued: a repeated restore starts over.
      journal.finish();
      await rm(folder, { recursive: true, force: true });
    }
  },
});

/** Brings a backup into an empty folder, and verifies it there. */
async function fetchBackup(from: string, at: string | undefined, folder: string, context: CliContext) {
  if (!isStorage(from)) {
    const path = resolve(context.cwd, from);
    if (!existsSync(path))
      throw new DeployError("usage", `There is no backup in ${from}: the folder does not exist`, {
        outcome: "Nothing was changed",
        fix: "Name the folder that svc deploy backup --to has written, or a storage",
      });
    return restoreStore(path, folder);
  }
  const storage = openNamed(from, context);
  const generation = await findGeneration(storage, at === undefined ? undefined : new Date(at));
  return saveBackup(readGeneration(storage, generation), folder);
}

/** The files of a folder, and their checksums. */
export async function archive(folder: string): Promise<TarEntry[]> {
  const entries: TarEntry[] = [];
  let sums = "";
  const all = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = all.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  for (const path of paths.sort()) {
    const name = relative(folder, path).split(sep).join("/");
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
    sums += `${hash.digest("hex")}  ${name}\n`;
    entries.push({ path: name, size: (await stat(path)).size, content: () => createReadStream(path) });
  }
  const text = Buffer.from(sums);
  return [...entries, { path: "SUMS", size: text.length, content: () => [text] }];
}
