import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import { type CheckedJob, checkJob, type OpenJob } from "../../core/runs/check/check-job.ts";
import { readOpenJobs } from "../../core/runs/check/open-jobs.ts";
import type { CliContext } from "../context.ts";
import { connect } from "../job/connection.ts";
import { linesOf } from "../job/service-client.ts";
import { withSecretFiles } from "../secret-files.ts";
import { databaseSchemaOf, databaseUrlOf, readDataFolder } from "../store/data-folder.ts";
import { encryptionKeysOf } from "../store/encryption-keys.ts";
import { databasePlace } from "../store/with-remote.ts";
import { readCopy, readCopyOf } from "./folder-copy.ts";
import { loadCode } from "./load-code.ts";
import { whileRehearsing } from "./rehearsing.ts";
import type { CheckReport } from "./report.ts";

interface Source {
  readonly data?: string | undefined;
  /** A file of open jobs; "-" for standard input. */
  readonly jobs?: string | undefined;
  readonly url?: string | undefined;
  readonly key?: string | undefined;
  readonly insecure?: boolean | undefined;
}

/** Jobs that are checked side by side: their handlers may wait for something of their own. */
const AT_ONCE = 100;

/** Gives each open job of a service, or of a data folder, to the agents of a controller. */
export async function checkOpenJobs(file: string, source: Source, context: CliContext): Promise<CheckReport> {
  const begun = performance.now();
  const { registry, dataDir } = await loadCode(file, context);
  // All of them first: then there is no network.
  const open: string[] = [];
  for await (const job of readSource(source, context)) open.push(job);
  const env = withSecretFiles(context.env);
  const checked: CheckedJob[] = [];
  let next = 0;
  const hidden = [dataDir, ...(source.data === undefined ? [] : [resolve(context.cwd, source.data)])];
  await whileRehearsing(file, hidden, async (processes) => {
    const work = async (): Promise<void> => {
      for (let at = next++; at < open.length; at = next++) {
        checked[at] = await checkJob(registry, JSON.parse(open[at]!) as OpenJob, { env, processes });
        open[at] = "";
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  });
  const unsure = checked.filter(({ verdict }) => verdict === "unsure");
  const fit = checked.filter(({ verdict }) => verdict === "fits").length;
  const skipping = checked.filter(({ skipped }) => skipped.length > 0);
  const problems = checked.filter(({ verdict }) => verdict !== "fits" && verdict !== "unsure");
  const seconds = Math.round((performance.now() - begun) / 100) / 10;
  return { jobs: checked.length, fit, skipping, unsure, problems, seconds };
}

/** Open jobs as lines of JSON. */
async function* readSource(source: Source, context: CliContext): AsyncGenerator<string> {
  if (source.jobs !== undefined) return yield* linesOf(bytesOf(source.jobs, context));
  const isRemote =
    source.data === undefined && (source.url !== undefined || Boolean(context.env.SERVICE_URL));
  yield* isRemote ? readService(source, context) : readFolder(source, context);
}

function bytesOf(file: string, { cwd }: CliContext): AsyncIterable<Uint8Array> {
  return file === "-" ? process.stdin : createReadStream(resolve(cwd, file));
}

async function* readService(source: Source, context: CliContext): AsyncGenerator<string> {
  const client = await connect(source, context);
  yield* client.lines("/utils/open-jobs");
}

async function* readFolder({ data: dataDir }: Source, context: CliContext): AsyncGenerator<string> {
  const url = databaseUrlOf({ dataDir }, context);
  const keys = encryptionKeysOf(context);
  const copy =
    url === undefined
      ? readCopy(readDataFolder({ dataDir }, context), keys, readOpenJobs)
      : readCopyOf(databasePlace(url, databaseSchemaOf({}, context), context), keys, readOpenJobs);
  for await (const job of copy) yield JSON.stringify(job);
}
