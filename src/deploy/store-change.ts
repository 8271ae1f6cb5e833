import { describeStorageUrl } from "../core/storage/storage-url.ts";
import { DATABASE_URL } from "./config.ts";
import { type JobPlace, placeOf } from "./job-store.ts";
import type { Finding, Release } from "./platform.ts";

/** The store of the running service, where the new release has another one: the jobs in it are not moved. */
export function leftStore(live: Release | undefined, to: JobPlace): JobPlace | undefined {
  if (live === undefined) return undefined;
  const from = placeOf(live);
  if (from.store === to.store && from.storage === to.storage) return undefined;
  if (from.store === "external" || (from.store === "file" && to.store !== "bucket")) return undefined;
  return from;
}

/** Whether open jobs in a store that is left stop the deployment: a database can be read from anywhere. */
export const mustBeEmpty = (from: JobPlace, to: JobPlace): boolean =>
  from.store === "bucket" || to.store === "bucket";

/** Warns where the jobs of the running service stay behind. */
export function leftBehind(to: JobPlace, live: Release | undefined): Finding[] {
  const from = leftStore(live, to);
  if (from === undefined) return [];
  return [
    {
      level: "warning",
      subject: from.store === "database" ? "Database" : "Store",
      message: `the running service has its jobs in ${describePlace(from)}, and the new release does not use it: they ${from.store === "file" ? "are not moved" : "wait there"}`,
      ...fixFor(from),
    },
  ];
}

/** Where jobs are, as text. */
export function describePlace({ store, storage }: JobPlace): string {
  if (storage !== undefined) return describeStorageUrl(storage);
  return store === "database" ? "a database" : "files";
}

function fixFor({ store, storage }: JobPlace): { fix?: string } {
  if (store === "database")
    return { fix: `Give ${DATABASE_URL} again, or move them first with svc store move` };
  return storage === undefined ? {} : { fix: `To keep it: --storage "${storage}"` };
}
