import type { RegistryAuth } from "../../../deploy/platform.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { renewal } from "./aws-config.ts";
import type { AwsContext } from "./aws-context.ts";
import { tagsOf } from "./tags.ts";

const MISSING = /RepositoryNotFoundException/;

export function registryHost({ identity, target }: AwsContext): string {
  const suffix = identity.partition === "aws-cn" ? "amazonaws.com.cn" : "amazonaws.com";
  return `${identity.account}.dkr.ecr.${target.region}.${suffix}`;
}

export function imageName(context: AwsContext, tag: string): string {
  return `${registryHost(context)}/${context.target.serviceName}:${tag}`;
}

export async function hasRepository({ aws, target }: AwsContext): Promise<boolean> {
  const found = await aws.find(
    "ecr",
    "DescribeRepositories",
    { repositoryNames: [target.serviceName] },
    MISSING,
  );
  return found !== undefined;
}

/**
 * Digest of the image under a tag. Tags are immutable in repositories made here: a push to an existing tag is
 * refused.
 */
export async function imageDigest(
  { aws, target }: AwsContext,
  imageTag: string,
): Promise<string | undefined> {
  const found = await aws.find<{ imageDetails?: { imageDigest?: string }[] }>(
    "ecr",
    "DescribeImages",
    { repositoryName: target.serviceName, imageIds: [{ imageTag }] },
    /ImageNotFoundException|RepositoryNotFoundException/,
  );
  return found?.imageDetails?.[0]?.imageDigest;
}

/** Creates the repository of the service's images; it outlives the service. */
export async function ensureRepository(context: AwsContext): Promise<void> {
  const { aws, target, tools } = context;
  if (await hasRepository(context)) return;
  await tools.journal({ step: "registry.create", data: { repository: target.serviceName } }, async () => {
    try {
      await aws.send(
        "ecr",
        "CreateRepository",
        {
          repositoryName: target.serviceName,
          imageTagMutability: "IMMUTABLE",
          imageScanningConfiguration: { scanOnPush: true },
          tags: tagsOf(target),
        },
        { reread: async () => ((await hasRepository(context)) ? {} : undefined) },
      );
    } catch (error) {
      // Somebody else created it first; that is fine.
      if (!(error instanceof CloudError) || error.code !== "RepositoryAlreadyExistsException") throw error;
    }
  });
}

/** A login that is valid for twelve hours. */
export async function registryLogin(context: AwsContext, use?: "read"): Promise<RegistryAuth> {
  if (use === undefined) await ensureRepository(context);
  const { authorizationData = [] } = await context.aws.read<{
    authorizationData?: { authorizationToken?: string }[];
  }>("ecr", "GetAuthorizationToken");
  const login = Buffer.from(authorizationData[0]?.authorizationToken ?? "", "base64").toString("utf8");
  const password = login.slice(login.indexOf(":") + 1);
  context.tools.redact(password);
  return {
    registry: registryHost(context),
    username: "AWS",
    password,
    renew: renewal(context.tools.env),
  };
}
