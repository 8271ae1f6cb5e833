import type { FieldsInput } from "../../agents/fields-input.ts";
import {
  type FileData,
  type NewFileOptions,
  type OpenFile,
  openFile,
  toParts,
} from "../../agents/file-content.ts";
import type { AskOptions, CallOptions, StepFunction } from "../../agents/run-context.ts";
import type { Files } from "../../entities/files.ts";
import { type FileOwner, linkFile } from "../../entities/job-files.ts";
import type { Unit } from "../../entities/ledger.ts";
import { keepResultOf, linkWritten, toFileValue } from "../../entities/written-files.ts";
import {
  type FileOrigin,
  type FileValue,
  filesIn,
  isFileValue,
  jobFileId,
  type WrittenFile,
} from "../../models/file.ts";
import type { Run } from "./run.ts";
import type { StepUnderWay } from "./step-under-way.ts";

/** Stores a file that a step's function makes; the job names it when the step is recorded. */
export async function addFile(
  run: Run,
  one: StepUnderWay,
  { name, data, type }: { readonly name: string; readonly data: FileData } & NewFileOptions,
): Promise<FileValue> {
  if (typeof name !== "string" || name.trim() === "") throw new TypeError("file was called without a name");
  if (one.isRecorded) throw new Error(`The file "${name}" was made after its step "${one.name}" had ended`);
  const files = filesOf(run);
  const written = await files.write({ name, type }, toParts(data));
  if (one.isRecorded) {
    files.release([written]);
    throw new Error(`The file "${name}" was made after its step "${one.name}" had ended`);
  }
  one.files = [...(one.files ?? []), written];
  return toFileValue(written);
}

/** Has the job name what a step has made, inside the unit that records the step. */
export async function linkMade(
  unit: Unit,
  run: Run,
  { files, caseId }: { readonly files: readonly WrittenFile[]; readonly caseId: string | undefined },
): Promise<void> {
  const use = { job: run.owner, origin: "step", caseId } as const;
  for (const file of files) await linkWritten(unit, filesOf(run), file, use);
}

/** Has the job keep a result of a step, inside the unit that records the step. */
export function keepResult(unit: Unit, run: Run, result: WrittenFile): Promise<void> {
  return keepResultOf(unit, filesOf(run), result, run.jobId);
}

/** What an attempt has made is named by now, or never will be. */
export function releaseMade(run: Run, { files, result }: StepUnderWay): void {
  if (files) filesOf(run).release(files);
  if (result) filesOf(run).release([result]);
}

/** What a file of a job is to people. */
export interface Artifact {
  readonly name: string;
  readonly file: FileValue;
  readonly title: string | undefined;
}

interface ArtifactStep {
  readonly name: string;
  readonly fn: () => Promise<FileValue>;
  readonly options: CallOptions;
  readonly artifact: Artifact;
}

const LONGEST_TITLE = 200;

/** What the names of steps begin with that say what a file is. */
export const ARTIFACT_STEP = "artifact ";

/** A step that says what a file of the job is to people; its result is the file. */
export function artifactStep(
  run: Run,
  name: string,
  file: FileValue,
  { title, key }: { readonly title?: string } & CallOptions,
): ArtifactStep {
  if (typeof name !== "string" || name.trim() === "" || name.length > LONGEST_TITLE)
    throw new TypeError("artifact was called without a name, such as report");
  if (!isFileValue(file))
    throw new TypeError(
      `The artifact "${name}" must be a file: pass one of the job's fields, or what file() gave`,
    );
  if (title !== undefined && (typeof title !== "string" || title.length > LONGEST_TITLE))
    throw new TypeError(
      `The title of the artifact "${name}" must be a text of up to ${LONGEST_TITLE} characters`,
    );
  return {
    name: `${ARTIFACT_STEP}${name}`,
    fn: async () => {
      await assertOwn(run, [file]);
      return file;
    },
    options: key === undefined ? {} : { key },
    artifact: { name, file, title },
  };
}

/** Notes what a file is to people, inside the unit that records the step. */
export async function linkArtifact(
  unit: Unit,
  run: Run,
  {
    artifact: { name, file, title },
    caseId,
  }: { readonly artifact: Artifact; readonly caseId: string | undefined },
): Promise<void> {
  const { redact } = run.parts;
  await linkFile(unit, file, {
    ...{ job: run.owner, origin: "step", caseId },
    artifact: { artifact: redact(name), ...(title !== undefined && { title: redact(title) }) },
    limits: filesOf(run).limits,
  });
}

/** Has a job name the files in a value that another one has given it: those that that one has. */
export async function passFiles(
  unit: Unit,
  { parts }: Run,
  { value, from, to, origin }: { value: unknown; from: string; to: FileOwner; origin: FileOrigin },
): Promise<void> {
  const { files } = parts;
  if (!files) return;
  for (const file of filesIn(value).values()) {
    if (!(await unit.tx.get("JobFile", jobFileId(from, file.sha256)))) continue;
    const use = { job: to, origin, limits: files.limits };
    await linkFile(unit, file, use);
  }
}

/** A file of the job with what reads it; its content is not recorded. */
export function openOf(run: Run, file: FileValue): OpenFile {
  assertOpens(file);
  return openFile(file, () => read(run, file));
}

/** Throws where what is to be opened is no file. */
export function assertOpens(file: FileValue): void {
  if (isFileValue(file)) return;
  throw new TypeError(
    "open was called with something that is not a file: pass a file of the job's fields, or what file() gave",
  );
}

/** The step in which a job makes a file outside of any. */
export function fileStep(
  name: string,
  data: FileData,
  { key, ...given }: NewFileOptions & CallOptions = {},
): [name: string, fn: StepFunction<FileValue>, options: CallOptions] {
  return [`file ${name}`, ({ file }) => file(name, data, given), key === undefined ? {} : { key }];
}

async function* read(run: Run, { sha256 }: FileValue): AsyncGenerator<Uint8Array, void> {
  const files = filesOf(run);
  const made = run.activity.steps.flatMap((step) => step.files ?? []).find((one) => one.sha256 === sha256);
  yield* files.read(made ? { ...made, id: sha256 } : (await files.ofJob(run.jobId, sha256)).content);
}

/** Throws where the files of a question are none. */
export function checkFiles({ question, files }: Pick<AskOptions<FieldsInput>, "question" | "files">): void {
  for (const { page, ...file } of files ?? []) {
    if (!isFileValue(file))
      throw new TypeError(
        `The files of "${question}" must be files: pass one of the job's fields, or what file() gave`,
      );
    if (page !== undefined && (!Number.isInteger(page) || page < 1))
      throw new TypeError(`The page of "${file.name}" in "${question}" must be a whole number from 1 on`);
  }
}

/** Rejects where a file is not of the run's job. */
export async function assertOwn(run: Run, files: readonly FileValue[] = []): Promise<void> {
  for (const { sha256 } of files) await filesOf(run).ofJob(run.jobId, sha256);
}

function filesOf({ parts: { files } }: Run): Files {
  if (files) return files;
  throw new Error("Files are not kept here");
}
