import { hash, randomUUID } from "node:crypto";

/** Where to find a response: its job, and the key of its message where that has not started the job. */
export interface ResponsePlace {
  readonly jobId: string;
  readonly key?: string | undefined;
}

/** No id of a job has it. */
const SEPARATOR = "~";
const KEYS = "response-";

/** The key under which a request is recorded: always the same one where its client has given one. */
export function recordKey(given: string | undefined): string {
  const name = given === undefined ? randomUUID() : hash("sha256", given, "base64url").slice(0, 32);
  return `${KEYS}${name}`;
}

/** What the ids of a response and of its message end with. One that is not stored is found by nobody. */
export function nameOf({ jobId, key }: ResponsePlace, isStored: boolean): string {
  const place = key === undefined ? jobId : `${jobId}${SEPARATOR}${key.slice(KEYS.length)}`;
  return isStored ? place : `${SEPARATOR}${hash("sha256", place, "base64url").slice(0, 32)}`;
}

/** Where the response is that has this id, or the message of it. */
export function placeOf(id: string): ResponsePlace | undefined {
  const [, jobId, name] = /^(?:resp|msg)_([^~]+)(?:~([\w-]+))?$/.exec(id) ?? [];
  if (jobId === undefined) return undefined;
  return { jobId, ...(name !== undefined && { key: KEYS + name }) };
}
