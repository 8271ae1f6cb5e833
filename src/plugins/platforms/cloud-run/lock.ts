import { DeployError } from "../../../deploy/errors.ts";
import type { LockHolder, LockRequest } from "../../../deploy/platform.ts";
import { type LockPlace, readRemoteLock, takeRemoteLock } from "../../../deploy/remote-lock.ts";
import { isCloudError } from "../cloud/cloud-error.ts";
import { ownershipOf } from "../cloud/ownership.ts";
import type { Context } from "./context.ts";
import { isNotFound } from "./google-error.ts";
import { regionFindings } from "./preflight.ts";

interface LockSecret {
  readonly etag?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

const TEXT = "svc-lock";

/** Locks the target for all machines. Where it may not, because the project is new, it says so. */
export async function takeLock(
  context: Context,
  holder: LockHolder,
  request: LockRequest,
): Promise<() => Promise<void>> {
  const [region] = await regionFindings(context);
  if (region?.level === "error")
    throw new DeployError("preflight", region.message, { outcome: "Nothing was changed", fix: region.fix });
  try {
    return await takeRemoteLock(lockPlace(context), holder, request, context.tools);
  } catch (error) {
    if (!isCloudError(error) || error.status !== 403) throw error;
    // What is missing is found by the checks that follow.
    context.tools.report(`the target is not locked for other machines: ${error.message}`);
    return async () => undefined;
  }
}

/** Who holds it; nobody, as far as is known, where the caller may not read it. */
export async function readLock(context: Context): Promise<LockHolder | undefined> {
  try {
    return await readRemoteLock(lockPlace(context), context.tools);
  } catch (error) {
    if (isCloudError(error) && error.status === 403) return undefined;
    throw error;
  }
}

/**
 * The lock of a target: a secret without a value, as Secret Manager creates a name only once and deletes by etag. It
 * is there only while a command runs.
 */
function lockPlace(context: Context): LockPlace {
  const { project, target } = context;
  // Services are per region, secrets are not.
  const id = `${target.serviceName}-${target.region}-svc-lock`;
  const path = `/v1/projects/${project}/secrets/${id}`;
  const find = async () => (await context.google()).find<LockSecret>("secretmanager", path);
  return {
    async create(text) {
      const google = await context.google();
      try {
        await google.send("secretmanager", "POST", `/v1/projects/${project}/secrets`, {
          query: { secretId: id },
          body: {
            replication: { automatic: {} },
            labels: ownershipOf(target),
            annotations: { [TEXT]: text },
          },
          reread: async () => {
            const found = await find();
            return found?.annotations?.[TEXT] === text ? found : undefined;
          },
        });
        return true;
      } catch (error) {
        if (isCloudError(error) && error.status === 409) return false;
        throw error;
      }
    },
    async read() {
      const found = await find();
      return found && { text: found.annotations?.[TEXT] ?? "", version: found.etag ?? "" };
    },
    async renew(etag, text) {
      const google = await context.google();
      try {
        await google.send("secretmanager", "PATCH", path, {
          query: { updateMask: "annotations" },
          body: { etag, annotations: { [TEXT]: text } },
          reread: async () => {
            const found = await find();
            return found?.annotations?.[TEXT] === text ? found : undefined;
          },
        });
        return true;
      } catch (error) {
        const isOther = isCloudError(error) && [400, 409, 412].includes(error.status);
        if (!isNotFound(error) && !isOther) throw error;
        return false;
      }
    },
    async remove(etag) {
      const google = await context.google();
      try {
        await google.send("secretmanager", "DELETE", path, { query: { etag } });
      } catch (error) {
        const isOther = isCloudError(error) && [400, 409, 412].includes(error.status);
        if (!isNotFound(error) && !isOther) throw error;
      }
    },
  };
}
