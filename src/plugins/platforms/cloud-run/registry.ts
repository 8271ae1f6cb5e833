import type { RegistryAuth } from "../../../deploy/platform.ts";
import { ownershipOf } from "../cloud/ownership.ts";
import type { Context } from "./context.ts";
import { isExisting } from "./google-error.ts";
import { waitForOperation } from "./operations.ts";
import type { Operation } from "./service-types.ts";

/**
 * Repository for the images of all services of a project; images outlive the service that they were built
 * for.
 */
export const REPOSITORY = "agent-services";

export function registryHost(context: Context): string {
  return `${context.target.region}-docker.pkg.dev`;
}

export function imageName(context: Context, tag: string): string {
  return `${registryHost(context)}/${context.project}/${REPOSITORY}/${context.target.serviceName}:${tag}`;
}

export async function hasRepository(context: Context): Promise<boolean> {
  const google = await context.google();
  return (
    (await google.find("artifactregistry", `/v1/${context.location}/repositories/${REPOSITORY}`)) !==
    undefined
  );
}

export async function ensureRepository(context: Context): Promise<void> {
  if (await hasRepository(context)) return;
  const google = await context.google();
  await context.tools.journal({ step: "registry.create", data: { repository: REPOSITORY } }, async (note) => {
    try {
      const operation = await google.send<Operation>(
        "artifactregistry",
        "POST",
        `/v1/${context.location}/repositories`,
        {
          query: { repositoryId: REPOSITORY },
          body: {
            format: "DOCKER",
            description: "Images deployed by svc",
            labels: { "managed-by": ownershipOf(context.target)["managed-by"] },
          },
          reread: async () => ((await hasRepository(context)) ? { name: "", done: true } : undefined),
        },
      );
      await note({ operation: operation.name });
      await waitForOperation(context, "artifactregistry", operation);
    } catch (error) {
      // Somebody else created it first; that is fine.
      if (!isExisting(error)) throw error;
    }
  });
}

/** The access token itself, valid for an hour. */
export async function registryLogin(context: Context, use?: "read"): Promise<RegistryAuth> {
  if (use === undefined) await ensureRepository(context);
  const { identity } = await context.google();
  return {
    registry: registryHost(context),
    username: "oauth2accesstoken",
    password: await identity.token(),
    renew: identity.renew,
  };
}
