import type { Actor } from "../../audit/caller.ts";
import { withResult } from "../../entities/large-results.ts";
import { Scrub } from "../../entities/scrub.ts";
import type { StoredJob } from "../../models/job.ts";
import { EXPORT_FORMAT, type ExportLine } from "../../models/job-export.ts";
import { openParameters } from "../replay/handler-context.ts";
import { asJob, note, type RequestParts } from "../runner-parts.ts";

/** Reads all that is recorded of a job, without secrets and without what only its own service needs. */
export async function exportJob(
  parts: RequestParts,
  jobId: string,
  by?: Actor,
): Promise<AsyncGenerator<ExportLine, void>> {
  const job = await parts.jobs.get(jobId);
  await learnSecrets(parts, job);
  await parts.ledger.write((unit) => note(parts, unit, by, { action: "job.export", target: asJob(jobId) }));
  return lines(parts, job);
}

async function* lines(
  { jobs, cases, files, redactor }: RequestParts,
  job: StoredJob,
): AsyncGenerator<ExportLine, void> {
  const scrub = new Scrub(redactor);
  const { job_context: context } = job;
  const masked: StoredJob = {
    ...scrub.job(job),
    name: redactor.text(job.name),
    // These are stored as they were sent.
    job_fields: redactor.json(job.job_fields),
    job_context: {
      ...context,
      mission_name: redactor.text(context.mission_name),
      mission_context: redactor.json(context.mission_context),
    },
    fingerprint: "",
    encrypted_agent_parameters: null,
    idempotency_key: null,
  };
  yield { type: "job", format: EXPORT_FORMAT, job: masked };
  for (const { entry } of await jobs.log(job.id))
    yield {
      type: "entry",
      entry: scrub.entry(await withResult(entry, (file) => files!.readResult(file))).entry,
    };
  const query = { where: { job_id: job.id }, sort: "created_at", limit: Number.POSITIVE_INFINITY };
  for (const item of (await cases.list(query)).items) {
    yield { type: "case", case: scrub.case(item) };
    for (const update of await cases.updates(item.id)) yield { type: "update", update: scrub.update(update) };
  }
  yield { type: "end" };
}

/** The redactor knows the values of a job's parameters only while they are in use. */
async function learnSecrets(parts: RequestParts, job: StoredJob): Promise<void> {
  const agent = parts.agents.of(job);
  if (!agent) return;
  try {
    await openParameters(parts, agent, job.encrypted_agent_parameters);
  } catch {
    // They were encrypted with another key: nobody here can read them.
  }
}
