import { cp, mkdtemp, rm } from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { AgentRegistry } from "../../core/agents/registry.ts";
import { Cases } from "../../core/entities/cases.ts";
import { Jobs } from "../../core/entities/jobs.ts";
import { type CheckedJob, checkJob, type OpenJob } from "../../core/runs/check-job.ts";
import { readOpenJobs } from "../../core/runs/open-jobs.ts";
import { fingerprintOfProject } from "../../core/service/project-code.ts";
import { openJsonStoreWith } from "../../core/store/json/json-store.ts";
import { CORE_TABLES } from "../../core/store/tables.ts";
import type { CliContext } from "../context.ts";
import { connect } from "../job/connection.ts";
import { loadController } from "../load-controller.ts";
import { readDataFolder } from "../store/data-folder.ts";
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
  const { agents, build } = (await loadController(file, context.cwd)).options;
  const registry = new AgentRegistry(agents, build ?? (() => fingerprintOfProject(context.cwd)));
  // All of them first: then there is no network.
  const open: string[] = [];
  for await (const job of readSource(source, context)) open.push(job);
  const lift = forbidNetwork();
  const checked: CheckedJob[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < open.length; at = next++) {
      checked[at] = await checkJob(registry, JSON.parse(open[at]!) as OpenJob, context.env);
      open[at] = "";
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } finally {
    lift();
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
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of client.download("/utils/open-jobs")) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
  // A line without its end was cut off.
  if (rest !== "") throw new Error("The service ended its answer early: try again");
}

/** Reads a copy: to open a store writes into its folder. */
async function* readFolder({ data }: Source, context: CliContext): AsyncGenerator<string> {
  const folder = readDataFolder({ dataDir: data }, context);
  const copy = await mkdtemp(join(tmpdir(), "svc-check-"));
  const log = { info() {}, warn() {}, error() {} };
  try {
    await cp(folder, copy, {
      recursive: true,
      filter: (path) => path === folder || isOfStore(basename(path)),
    });
    const store = await openJsonStoreWith({ tables: CORE_TABLES, dataDir: copy, log, lock: false });
    try {
      const parts = { store, jobs: new Jobs(store), cases: new Cases(store) };
      for await (const job of readOpenJobs(parts)) yield JSON.stringify(job);
    } finally {
      await store.close();
    }
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

/** Neither keys nor locks. */
function isOfStore(name: string): boolean {
  return name === "MANIFEST.json" || name.endsWith(".jsonl");
}

/** What a handler does outside of its steps reaches nobody. */
function forbidNetwork(): () => void {
  const { connect } = Socket.prototype;
  Socket.prototype.connect = () => {
    throw new Error("There is no network while jobs are checked");
  };
  return () => {
    Socket.prototype.connect = connect;
  };
}
