import { mkdir } from "node:fs/promises";
import * as v from "valibot";
import { countOf } from "../../core/base/count-of.ts";
import { option } from "../../core/base/option.ts";
import type { WholeJob } from "../../core/entities/pulled.ts";
import type { StoredCase } from "../../core/models/case.ts";
import type { CaseNodeUpdate } from "../../core/models/case-node-update.ts";
import type { StoredJob } from "../../core/models/job.ts";
import { EXPORT_FORMAT, type ExportLine } from "../../core/models/job-export.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import { defineCommand } from "../command.ts";
import { CliError } from "../errors.ts";
import { dataFolderOf } from "../store/data-folder.ts";
import { encryptionKeysOf } from "../store/encryption-keys.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import type { ServiceClient } from "./service-client.ts";

const { url: _, ...flags } = CONNECTION_FLAGS;

/** `svc job pull`: copies a job of another service into a data folder here. */
export const pull = defineCommand({
  usage: "pull <url> <job>",
  summary:
    "Copy a job of another service into a local data folder, without secrets, to replay or fork it here",
  flags: v.object({
    data: option.text(
      "data folder of a service that is stopped, or a new one (default: SERVICE_DATA_DIR, else data)",
      "folder",
    ),
    ...flags,
  }),
  examples: ["svc job pull https://agents.example.com job-1f9c2a77", "svc job replay job-1f9c2a77"],
  async run({ args, flags, context }) {
    const [url, id] = args as [string, string];
    const client = await connect({ ...flags, url }, context);
    const whole = await readExport(client, id);
    const folder = dataFolderOf({ dataDir: flags.data }, context);
    await mkdir(folder, { recursive: true });
    // Loaded only here: the other commands about jobs need no store.
    const { withFolder } = await import("../../core/audit/audit-folder.ts");
    const { storePulled } = await import("../../core/entities/pulled.ts");
    const job = await withFolder(folder, encryptionKeysOf(context), ({ ledger }) =>
      ledger.write((unit) => storePulled(unit, whole, { url: client.url })),
    );
    if (!job) {
      throw new CliError(`${folder} has another job ${id}`, {
        detail: "Nothing was changed. Pull it into another folder: --data <folder>",
      });
    }
    const { log, cases } = whole;
    if (flags.json)
      context.print(JSON.stringify({ id, folder, lines: log.length, cases: cases.length }, null, 2));
    else {
      context.print(
        `Job ${id} (${whole.job.status}) is in ${folder}: ${countOf(log.length, "line")}, ${countOf(cases.length, "case")}`,
      );
      context.print(
        `It does not run here. Replay it: svc job replay ${id}${flags.data ? ` --data ${flags.data}` : ""}`,
      );
    }
    return 0;
  },
});

async function readExport(client: ServiceClient, id: string): Promise<WholeJob> {
  let job: StoredJob | undefined;
  let isWhole = false;
  const log: RunEntry[] = [];
  const cases: { item: StoredCase; updates: CaseNodeUpdate[] }[] = [];
  for await (const text of client.lines(`/jobs/${encodeURIComponent(id)}/export`)) {
    const line = JSON.parse(text) as ExportLine;
    if (line.type === "job" && line.format !== EXPORT_FORMAT) {
      throw new CliError(`${client.url} sends jobs in format ${line.format}, and this is ${EXPORT_FORMAT}`, {
        detail: "Use the same version of the package as that service.",
      });
    }
    if (line.type === "job") job = line.job;
    else if (line.type === "entry") log.push(line.entry);
    else if (line.type === "case") cases.push({ item: line.case, updates: [] });
    else if (line.type === "update") cases.at(-1)?.updates.push(line.update);
    else isWhole = true;
  }
  if (job && isWhole) return { job, log, cases };
  throw new CliError("The service ended its answer early", { detail: "Nothing was stored. Try again." });
}
