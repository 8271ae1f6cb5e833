import { STORAGE_URL } from "../../../deploy/config.ts";
import type { PlatformSession, ReleaseSpec } from "../../../deploy/platform.ts";
import type { AwsContext } from "./aws-context.ts";
import { ensureRepository, imageDigest, imageName, registryLogin } from "./ecr.ts";
import { ensureStorage, isS3, storageUrl } from "./job-bucket.ts";
import { lockOf } from "./lock.ts";
import { planRemoval, type WantedRole } from "./roles.ts";
import { dropSecrets, listSecrets, putSecrets, referTo, secretCommand } from "./secrets.ts";

/** What a service of AWS does its own way, in the members that all sessions on AWS have. */
export interface AwsParts {
  /** Makes the roles that a first release needs. */
  prepareRoles(): Promise<unknown>;
  /** The role that gets access to a bucket; undefined where the service runs with another than svc's own. */
  bucketRole(spec: Pick<ReleaseSpec, "env">): Promise<WantedRole | undefined>;
  /** All roles that svc may have made for the service; they are removed with it. */
  readonly roles: readonly WantedRole[];
}

/** The members that are the same in all sessions on AWS. */
export function sharedMembers(context: AwsContext, { prepareRoles, bucketRole, roles }: AwsParts) {
  return {
    ...lockOf(context),
    listSecrets: () => listSecrets(context),
    async prepare() {
      await ensureRepository(context);
      await prepareRoles();
    },
    ownResources: () => planRemoval(context, roles),
    storageUrl: async () => storageUrl(context),
    hasAccessTo: isS3,
    async ensureStorage(url) {
      await ensureStorage(context, await bucketRole({ env: { [STORAGE_URL]: url } }), url);
    },
    imageRef: (tag) => imageName(context, tag),
    registryLogin: (use) => registryLogin(context, use),
    imageDigest: (tag) => imageDigest(context, tag),
    putSecrets: (values) => putSecrets(context, values),
    dropSecrets: (names) => dropSecrets(context, names),
    secretCommand: (name) => secretCommand(context, name),
    referTo: (name) => referTo(context, name),
    close: () => context.aws.close(),
  } satisfies Partial<PlatformSession>;
}
