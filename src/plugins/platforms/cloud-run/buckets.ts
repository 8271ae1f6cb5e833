import { CREATE } from "../../../deploy/storage.ts";
import { ownershipOf } from "../cloud/ownership.ts";
import type { Context } from "./context.ts";
import { isExisting } from "./google-error.ts";

/** The parts of a bucket of Cloud Storage that are read here. */
export interface Bucket {
  readonly name?: string;
  readonly projectNumber?: string;
  readonly location?: string;
  readonly iamConfiguration?: { readonly publicAccessPrevention?: string };
}

/** Undefined if there is none; rejects with 403 if somebody else has the name. */
export async function findBucket(context: Context, name: string): Promise<Bucket | undefined> {
  const google = await context.google();
  return google.find<Bucket>("storage", `/storage/v1/b/${name}`);
}

/** Creates a bucket in the service's region that nobody can make public; one of that name may already exist. */
export async function createBucket(
  context: Context,
  name: string,
  { step, ...settings }: { readonly step: string } & Readonly<Record<string, unknown>>,
): Promise<void> {
  const google = await context.google();
  await context.tools.journal({ step, data: { bucket: name } }, async () => {
    try {
      await google.send<Bucket>("storage", "POST", "/storage/v1/b", {
        query: { project: context.project },
        body: {
          name,
          location: context.target.region,
          labels: { "managed-by": ownershipOf(context.target)["managed-by"] },
          iamConfiguration: {
            uniformBucketLevelAccess: { enabled: true },
            publicAccessPrevention: "enforced",
          },
          ...settings,
        },
        reread: () => findBucket(context, name),
      });
    } catch (error) {
      if (!isExisting(error)) throw error;
    }
  });
}

/** Whether the service's account can be given access to it: to all of Cloud Storage, not to what only looks like it. */
export function isCloudStorage(url: string): boolean {
  return url.startsWith("gs:") && !new URL(url).searchParams.has("endpoint");
}

/** Whether this deployment is asked to prepare a bucket. */
export function wantsBucket({ storage }: Pick<Context["target"], "storage">): boolean {
  return storage !== undefined && (storage === CREATE || isCloudStorage(storage));
}
