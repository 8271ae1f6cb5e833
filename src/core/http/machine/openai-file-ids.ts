import type { GivenFile } from "../../agents/read-values.ts";
import type { Files } from "../../entities/files.ts";
import type { Jobs } from "../../entities/jobs.ts";

/** Ids have it, as those of OpenAI have: of an upload, or of a content of a job, by its hash and the job. */
const PREFIX = "file-";

/** The id that clients for OpenAI have of an upload. */
export function idOfUpload(upload: string): string {
  return PREFIX + upload;
}

/** The id that clients for OpenAI have of a file of a job. */
export function idOfJobFile(jobId: string, sha256: string): string {
  return `${PREFIX}${sha256}.${jobId}`;
}

/** The upload that a file of such a client is. */
export function uploadOfFile(id: string): string {
  return id.startsWith(PREFIX) ? id.slice(PREFIX.length) : id;
}

/** The file of a job that such an id names. */
export function jobFileOf(id: string): { readonly sha256: string; readonly jobId: string } | undefined {
  const [, sha256, jobId] = /^file-([0-9a-f]{64})\.(.+)$/.exec(id) ?? [];
  return sha256 === undefined || jobId === undefined ? undefined : { sha256, jobId };
}

/** What the ids of files in a request name: uploads, and files of jobs that the caller sees. */
export class NamedFiles {
  readonly #files: Pick<Files, "ofJob">;
  readonly #seen: Pick<Jobs, "get">;
  /** The jobs whose files were named. */
  readonly jobs = new Set<string>();

  constructor(files: Pick<Files, "ofJob">, seen: Pick<Jobs, "get">) {
    this.#files = files;
    this.#seen = seen;
  }

  /** The file of an id, or `not_found` where it is one of a job that the caller does not see. */
  async find(id: string): Promise<GivenFile> {
    const ofJob = jobFileOf(id);
    if (!ofJob) return { upload: uploadOfFile(id) };
    const { jobId, sha256 } = ofJob;
    await this.#seen.get(jobId);
    const { file, content } = await this.#files.ofJob(jobId, sha256);
    this.jobs.add(jobId);
    const { name, type } = file.names[0]!;
    return { name, type, size: content.size, sha256 };
  }
}
