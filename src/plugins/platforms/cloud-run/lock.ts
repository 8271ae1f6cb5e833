import { DeployError } from "../../../deploy/errors.ts";
import { type LockPlace, remoteLock } from "../../../deploy/remote-lock.ts";
import { type CloudError, isCloudError } from "../cloud/cloud-error.ts";
import { ownershipOf } from "../cloud/ownership.ts";
import type { Context } from "./context.ts";
import { isNotFound } from "./google-error.ts";
import { regionFindings } from "./preflight.ts";

interface LockSecret {
  readonly etag?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

const TEXT = "svc-lock";

/** The lock of a target for all machines, in a region that the project may use. */
export function lockOf(context: Context): ReturnType<typeof remoteLock> {
  const lock = remoteLock(lockPlace(context), context.tools, isForbidden);
  return {
    ...lock,
    async lock(holder, request) {
      const [region] = await regionFindings(context);
      if (region?.level === "error")
        throw new DeployError("preflight", region.message, {
          outcome: "Nothing was changed",
          fix: region.fix,
        });
      return lock.lock(holder, request);
    },
  };
}

function isForbidden(error: unknown): error is CloudError {
  return isCloudError(error) && error.status === 403;
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
  const findWith = async (text: string) => {
    const found = await find();
    return found?.annotations?.[TEXT] === text ? found : undefined;
  };
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
          reread: () => findWith(text),
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
          reread: () => findWith(text),
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
