import { DeployError } from "../../../deploy/errors.ts";
import type { SecretRef, SecretValue, StoredSecret } from "../../../deploy/platform.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { isOwn } from "../cloud/ownership.ts";
import type { AwsContext } from "./aws-context.ts";
import { isDenied } from "./denied.ts";
import { parseSecretRef, toSecretRef } from "./secret-policy.ts";
import { type AwsTag, tagMap, tagsOf } from "./tags.ts";

interface Secret {
  /** With the six characters that AWS adds to the name: the only form that services accept. */
  readonly ARN?: string;
  readonly Name?: string;
  readonly DeletedDate?: unknown;
  readonly Tags?: readonly AwsTag[];
  readonly VersionIdsToStages?: Readonly<Record<string, readonly string[]>>;
  readonly SecretVersionsToStages?: Readonly<Record<string, readonly string[]>>;
}

const HASH = "svc-hash";
const MISSING = /ResourceNotFoundException/;
/** Days in which a removed secret can be restored. Its name is reserved for as long. */
const RECOVERY_DAYS = 7;

/** The secrets of this target, with the keyed hash of each value. */
export async function listSecrets(context: AwsContext): Promise<StoredSecret[]> {
  const { aws, target } = context;
  const all: Secret[] = [];
  const Filters = [{ Key: "name", Values: [`${target.serviceName}/`] }];
  const pages = aws.pages<{ SecretList?: Secret[] }>("secrets-manager", "ListSecrets", {
    Filters,
    MaxResults: 100,
  });
  for await (const { SecretList = [] } of pages) all.push(...SecretList);
  return all.flatMap((secret) => {
    const tags = tagMap(secret.Tags);
    if (!isOwn(tags, target) || secret.DeletedDate !== undefined) return [];
    const name = secret.Name?.slice(target.serviceName.length + 1) ?? "";
    const hash = tags[HASH];
    const ref = toSecretRef(secret.ARN ?? "", currentVersion(secret));
    return [{ name, ref, ...(hash === undefined ? {} : { hash }) }];
  });
}

/** Which value of a secret is meant, in the words of Secrets Manager; without any, the current one. */
export interface SecretVersion {
  readonly VersionId?: string;
  readonly VersionStage?: "AWSPREVIOUS";
}

/** The version in a reference; a reference without one means the current version. */
export function versionOf(ref: string | undefined): SecretVersion {
  const { version } = parseSecretRef(ref ?? "");
  return version === "" ? {} : { VersionId: version };
}

/** A value of a secret of this target, if the deploying user may read it. */
export async function readSecret(
  context: AwsContext,
  name: string,
  which: SecretVersion = {},
): Promise<string | undefined> {
  try {
    const secret = await describe(context, name);
    if (secret === undefined || !isOwn(tagMap(secret.Tags), context.target)) return undefined;
    if (secret.DeletedDate !== undefined) return undefined;
    const found = await context.aws.find<{ SecretString?: string }>(
      "secrets-manager",
      "GetSecretValue",
      { SecretId: secret.ARN, ...which },
      MISSING,
    );
    return found?.SecretString;
  } catch (error) {
    if (isDenied(error)) return undefined;
    throw error;
  }
}

/** A secret of the account by its name or ARN; services get its newest value when they start. */
export async function referTo({ aws }: AwsContext, name: string): Promise<string> {
  const found = await aws.find<Secret>("secrets-manager", "DescribeSecret", { SecretId: name }, MISSING);
  if (found?.ARN !== undefined && found.DeletedDate === undefined) return toSecretRef(found.ARN, "");
  throw new DeployError("bad_config", `There is no secret "${name}" in this account and region`, {
    ...(found?.DeletedDate === undefined ? {} : { detail: "It is scheduled for deletion" }),
    outcome: "Nothing was changed",
    fix: "Name a secret of AWS Secrets Manager, or its ARN: aws secretsmanager list-secrets shows them",
  });
}

/** Writes the given values, except those that are already stored. */
export async function putSecrets(
  context: AwsContext,
  values: Readonly<Record<string, SecretValue>>,
): Promise<Record<string, SecretRef>> {
  const refs: Record<string, SecretRef> = {};
  for (const [name, value] of Object.entries(values)) {
    context.tools.redact(value.value);
    refs[name] = await putSecret(context, name, value);
  }
  return refs;
}

/** Schedules secrets of this target for deletion; a secret that is not ours stays. */
export async function dropSecrets(context: AwsContext, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const secret = await describe(context, name);
    if (secret === undefined || secret.DeletedDate !== undefined) continue;
    if (!isOwn(tagMap(secret.Tags), context.target)) continue;
    await context.tools.journal({ step: `secret.delete ${name}` }, () =>
      context.aws.send(
        "secrets-manager",
        "DeleteSecret",
        { SecretId: secret.ARN, RecoveryWindowInDays: RECOVERY_DAYS },
        { idempotent: true },
      ),
    );
  }
}

async function putSecret(
  context: AwsContext,
  name: string,
  { value, hash }: SecretValue,
): Promise<SecretRef> {
  const found = await describe(context, name);
  if (found === undefined) return createSecret(context, name, value, hash);
  if (!isOwn(tagMap(found.Tags), context.target))
    throw new DeployError(
      "failed",
      `A secret "${found.Name}" already exists and does not belong to this target`,
      {
        outcome: "It was not changed",
        fix: "Choose another service name with --name, or remove that secret yourself",
      },
    );
  if (found.DeletedDate !== undefined) await restore(context, name, found);
  else if (tagMap(found.Tags)[HASH] === hash)
    return { name, ref: toSecretRef(found.ARN ?? "", currentVersion(found)) };
  // A run that was killed, here or elsewhere, may have stored this very value and not its hash.
  const isStored = (await readSecret(context, name)) === value;
  const version = isStored ? currentVersion(found) : await putValue(context, name, found, value, hash);
  await tagHash(context, name, found, hash);
  return { name, ref: toSecretRef(found.ARN ?? "", version) };
}

/** With its hash from the start: a run killed after this call finds the secret complete. */
async function createSecret(
  context: AwsContext,
  name: string,
  value: string,
  hash: string,
): Promise<SecretRef> {
  const { aws, target, tools } = context;
  const token = tokenFor(context, `secret.create ${name}`, hash);
  const made = await tools.journal({ step: `secret.create ${name}`, data: { hash, token } }, () =>
    aws.send<{ ARN?: string; VersionId?: string }>(
      "secrets-manager",
      "CreateSecret",
      {
        Name: nameOf(context, name),
        SecretString: value,
        ClientRequestToken: token,
        Tags: [...tagsOf(target), { Key: HASH, Value: hash }],
      },
      { idempotent: true },
    ),
  );
  return { name, ref: toSecretRef(made.ARN ?? "", made.VersionId ?? token) };
}

/** A removed secret reserves its name for days; it is restored instead of waiting. */
async function restore({ aws, tools }: AwsContext, name: string, secret: Secret): Promise<void> {
  tools.report(`secret ${name} was scheduled for deletion and is restored`);
  await tools.journal({ step: `secret.restore ${name}` }, () =>
    aws.send("secrets-manager", "RestoreSecret", { SecretId: secret.ARN }, { idempotent: true }),
  );
}

async function putValue(
  context: AwsContext,
  name: string,
  secret: Secret,
  value: string,
  hash: string,
): Promise<string> {
  const token = tokenFor(context, `secret.put ${name}`, hash);
  const put = await context.tools.journal({ step: `secret.put ${name}`, data: { hash, token } }, () =>
    context.aws.send<{ VersionId?: string }>(
      "secrets-manager",
      "PutSecretValue",
      { SecretId: secret.ARN, SecretString: value, ClientRequestToken: token },
      { idempotent: true },
    ),
  );
  return put.VersionId ?? token;
}

async function tagHash(
  { aws, tools }: AwsContext,
  name: string,
  secret: Secret,
  hash: string,
): Promise<void> {
  await tools.journal({ step: `secret.tag ${name}` }, () =>
    aws.send(
      "secrets-manager",
      "TagResource",
      { SecretId: secret.ARN, Tags: [{ Key: HASH, Value: hash }] },
      { idempotent: true },
    ),
  );
}

/** The token makes a repeated call the same call. A new one for each change: an old one would be ignored. */
function tokenFor({ tools }: AwsContext, step: string, hash: string): string {
  const earlier = tools.recall(step);
  return earlier?.hash === hash && typeof earlier.token === "string" ? earlier.token : tools.newId();
}

async function describe(context: AwsContext, name: string): Promise<Secret | undefined> {
  try {
    return await context.aws.find<Secret>(
      "secrets-manager",
      "DescribeSecret",
      { SecretId: nameOf(context, name) },
      MISSING,
    );
  } catch (error) {
    if (error instanceof CloudError && error.code === "InvalidRequestException") return undefined;
    throw error;
  }
}

/** The command by which a person reads it. */
export function secretCommand(context: AwsContext, name: string): string {
  const id = nameOf(context, name);
  return `aws secretsmanager get-secret-value --secret-id ${id} --query SecretString --output text --region ${context.target.region}`;
}

function nameOf({ target }: AwsContext, name: string): string {
  return `${target.serviceName}/${name}`;
}

function currentVersion({ VersionIdsToStages, SecretVersionsToStages }: Secret): string {
  const versions = Object.entries(VersionIdsToStages ?? SecretVersionsToStages ?? {});
  return versions.find(([, stages]) => stages.includes("AWSCURRENT"))?.[0] ?? "";
}
