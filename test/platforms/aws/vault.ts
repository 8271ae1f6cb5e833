import type { Answer } from "../http-server.ts";
import type { AwsState, Json, StoredSecret } from "./state.ts";
import { ok, refuse } from "./state.ts";

/** Secrets Manager and the container registry. */
export function secretsApi(state: AwsState, operation: string, input: Json): Answer {
  if (operation === "ListSecrets") return list(state, input);
  if (operation === "CreateSecret") return create(state, input);
  const id = String(input.SecretId);
  const secret = state.secrets.get(id) ?? [...state.secrets.values()].find(({ arn }) => arn === id);
  if (!secret)
    return refuse(
      "ResourceNotFoundException",
      "Secrets Manager can't find the specified secret.",
      400,
      "Message",
    );
  if (operation === "DescribeSecret") return ok(json(secret, "VersionIdsToStages"));
  if (operation === "RestoreSecret") {
    secret.deleted = false;
    return ok({ ARN: secret.arn, Name: secret.name });
  }
  if (secret.deleted)
    return refuse(
      "InvalidRequestException",
      "You can't perform this operation on the secret because it was marked for deletion.",
      400,
      "Message",
    );
  if (operation === "GetSecretValue") {
    const older = [...secret.versions.keys()].filter((id) => id !== secret.current);
    const asked = input.VersionStage === "AWSPREVIOUS" ? older.at(-1) : (input.VersionId ?? secret.current);
    const VersionId = String(asked);
    const SecretString = secret.versions.get(VersionId);
    if (SecretString === undefined)
      return refuse("ResourceNotFoundException", "Secrets Manager can't find the specified secret value.");
    const VersionStages = VersionId === secret.current ? ["AWSCURRENT"] : ["AWSPREVIOUS"];
    return ok({ ARN: secret.arn, Name: secret.name, VersionId, SecretString, VersionStages });
  }
  if (operation === "PutSecretValue") return put(secret, input);
  if (operation === "TagResource") {
    const tags = input.Tags as { Key: string; Value: string }[];
    secret.tags = [...secret.tags.filter(({ Key }) => !tags.some((tag) => tag.Key === Key)), ...tags];
    return ok();
  }
  if (operation === "DeleteSecret") {
    if (input.ForceDeleteWithoutRecovery) state.secrets.delete(secret.name);
    secret.deleted = true;
    return ok({ ARN: secret.arn, Name: secret.name, DeletionDate: 1_800_000_000 });
  }
  return refuse("UnknownOperationException", operation);
}

function create(state: AwsState, input: Json): Answer {
  const name = String(input.Name);
  const token = String(input.ClientRequestToken);
  const found = state.secrets.get(name);
  if (found?.deleted)
    return refuse(
      "InvalidRequestException",
      "You can't create this secret because a secret with this name is already scheduled for deletion.",
      400,
      "Message",
    );
  if (found) {
    if (found.versions.has(token)) return ok({ ARN: found.arn, Name: name, VersionId: token });
    return refuse(
      "ResourceExistsException",
      "The operation failed because the secret already exists.",
      400,
      "Message",
    );
  }
  const suffix = `Ab${String(state.next()).padStart(4, "0")}`;
  const secret: StoredSecret = {
    name,
    arn: `arn:aws:secretsmanager:${state.region}:${state.account}:secret:${name}-${suffix}`,
    tags: (input.Tags as StoredSecret["tags"] | undefined) ?? [],
    versions: new Map([[token, String(input.SecretString)]]),
    current: token,
    deleted: false,
  };
  state.secrets.set(name, secret);
  return ok({ ARN: secret.arn, Name: name, VersionId: token });
}

function put(secret: StoredSecret, input: Json): Answer {
  const token = String(input.ClientRequestToken);
  // A token that was used before is the call of before: nothing moves.
  if (!secret.versions.has(token)) {
    secret.versions.set(token, String(input.SecretString));
    secret.current = token;
  }
  return ok({ ARN: secret.arn, Name: secret.name, VersionId: token, VersionStages: ["AWSCURRENT"] });
}

function list(state: AwsState, input: Json): Answer {
  const start = (input.Filters as { Values: string[] }[])[0]?.Values[0] ?? "";
  const found = [...state.secrets.values()].filter(({ name, deleted }) => name.startsWith(start) && !deleted);
  return ok({ SecretList: found.map((secret) => json(secret, "SecretVersionsToStages")) });
}

function json(secret: StoredSecret, versions: string): Json {
  return {
    ARN: secret.arn,
    Name: secret.name,
    Tags: secret.tags,
    [versions]: { [secret.current]: ["AWSCURRENT"] },
    ...(secret.deleted ? { DeletedDate: 1_800_000_000 } : {}),
  };
}

export function registryApi(state: AwsState, operation: string, input: Json): Answer {
  if (operation === "GetAuthorizationToken") {
    const token = Buffer.from("AWS:lab-ecr-password").toString("base64");
    return ok({
      authorizationData: [
        {
          authorizationToken: token,
          expiresAt: 1_800_000_000,
          proxyEndpoint: `https://${state.account}.dkr.ecr.${state.region}.amazonaws.com`,
        },
      ],
    });
  }
  if (operation === "DescribeImages") return describeImage(state, input);
  const name = String(
    operation === "ListTagsForResource" || operation === "TagResource"
      ? String(input.resourceArn).split(":repository/")[1]
      : (input.repositoryName ?? (input.repositoryNames as string[])[0]),
  );
  const repository = {
    repositoryName: name,
    repositoryUri: `${state.account}.dkr.ecr.${state.region}.amazonaws.com/${name}`,
  };
  if (operation === "CreateRepository") {
    if (state.repositories.has(name))
      return refuse("RepositoryAlreadyExistsException", `The repository with name '${name}' already exists`);
    state.repositories.set(name, { tags: input.tags });
    return ok({ repository });
  }
  if (!state.repositories.has(name))
    return refuse(
      "RepositoryNotFoundException",
      `The repository with name '${name}' does not exist in the registry with id '${state.account}'`,
    );
  if (operation === "ListTagsForResource") return ok({ tags: state.repositories.get(name)?.tags });
  if (operation === "TagResource") {
    const tags = input.tags as { Key: string; Value: string }[];
    const before = (state.repositories.get(name)?.tags ?? []) as { Key: string; Value: string }[];
    const kept = before.filter(({ Key }) => !tags.some((tag) => tag.Key === Key));
    state.repositories.set(name, { tags: [...kept, ...tags] });
    return ok();
  }
  if (operation === "DeleteRepository") {
    state.repositories.delete(name);
    return ok({ repository });
  }
  return ok({ repositories: [repository] });
}

function describeImage(state: AwsState, input: Json): Answer {
  const name = String(input.repositoryName);
  const [{ imageTag = "" } = {}] = input.imageIds as { imageTag?: string }[];
  const host = `${state.account}.dkr.ecr.${state.region}.amazonaws.com`;
  const imageDigest = state.images.digestOf?.(`${host}/${name}:${imageTag}`);
  if (imageDigest === undefined)
    return refuse(
      "ImageNotFoundException",
      `The image with imageId {imageDigest:'null', imageTag:'${imageTag}'} does not exist within the repository with name '${name}'`,
    );
  return ok({ imageDetails: [{ repositoryName: name, imageDigest, imageTags: [imageTag] }] });
}
