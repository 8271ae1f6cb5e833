import { type CheckedJob, checkJob, type OpenJob } from "../../core/runs/check-job.ts";
import { AgentProcesses } from "../../core/runs/isolation/agent-processes.ts";
import { forbidNetwork } from "../../core/runs/isolation/no-network.ts";
import { readOpenJobs } from "../../core/runs/open-jobs.ts";
import { DatabasePlace } from "../../core/store/postgres/database-place.ts";
import type { CliContext } from "../context.ts";
import { connect } from "../job/connection.ts";
import { withSecretFiles } from "../secret-files.ts";
import { databaseUrlOf, readDataFolder } from "../store/data-folder.ts";
import { readCopy, readCopyOf } from "./folder-copy.ts";
import { loadRegistry } from "./load-code.ts";
import type { CheckReport } from "./report.ts";

interface Source {
  readonly data?: string | undefined;
  readonly url?: string | undefined;
  readonly key?: string | undefined;
  readonly insecure?: boolean | undefined;
}

/** Jobs that are checked side by side: their handlers may wait for something of their own. */
const AT_ONCE = 100;

/** Gives each open job of a service, or of a data folder, to the agents of a controller. */
export async function checkOpenJobs(file: string, source: Source, context: CliContext): Promise<CheckReport> {
  const begun = performance.now();
  const registry = await loadRegistry(file, context);
  // All of them first: then there is no network.
  const open: string[] = [];
  for await (const job of readSource(source, context)) open.push(job);
  const lift = forbidNetwork();
  const processes = new AgentProcesses(file, { isOffline: true });
  const given = { env: withSecretFiles(context.env), processes };
  const checked: CheckedJob[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < open.length; at = next++) {
      checked[at] = await checkJob(registry, JSON.parse(open[at]!) as OpenJob, given);
      open[at] = "";
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } finally {
    lift();
    processes.close();
  }
  const unsure = checked.filter(({ verdict }) => verdict === "unsure");
  const fit = checked.filter(({ verdict }) => verdict === "fits").length;
  const problems = checked.filter(({ verdict }) => verdict !== "fits" && verdict !== "unsure");
  const seconds = Math.round((performance.now() - begun) / 100) / 10;
  return { jobs: checked.length, fit, unsure, problems, seconds };
}

/** Open jobs as lines of JSON. */
async function* readSource(source: Source, context: CliContext): AsyncGenerator<string> {
  const isRemote =
    source.data === undefined && (source.url !== undefined || Boolean(context.env.SERVICE_URL));
  yield* isRemote ? readService(source, context) : readFolder(source, context);
}

async function* readService(source: Source, context: CliContext): AsyncGenerator<string> {
  const client = await connect(source, context);
  yield* client.lines("/utils/open-jobs");
}

async function* readFolder({ data: dataDir }: Source, context: CliContext): AsyncGenerator<string> {
  const url = databaseUrlOf({ dataDir }, context);
  const copy =
    url === undefined
      ? readCopy(readDataFolder({ dataDir }, context), readOpenJobs)
      : readCopyOf(new DatabasePlace({ url }), readOpenJobs);
  for await (const job of copy) yield JSON.stringify(job);
}
