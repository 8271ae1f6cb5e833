import { isDeepStrictEqual } from "node:util";
import type { ResourceAction } from "../../../core/models/deployment.ts";
import { DeployError } from "../../../deploy/errors.ts";
import { resourceAction } from "../cloud/actions.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { isOwn } from "../cloud/ownership.ts";
import type { AwsContext } from "./aws-context.ts";
import { type AwsTag, tagMap, tagsOf } from "./tags.ts";

/** A role that an AWS service assumes, and its permissions. */
export interface WantedRole {
  readonly name: string;
  /** What it is for, as the end of a sentence: "with which …". */
  readonly purpose: string;
  /** Service that assumes it, such as `ecs-tasks.amazonaws.com`. */
  readonly principal: string;
  /** Managed policies by the part behind `policy/`. */
  readonly managed: readonly string[];
  /** Its inline policies, by name; removed if empty. */
  readonly inline?: { readonly name: string; readonly document: object | undefined };
}

interface Role {
  readonly Arn?: string;
  /** Encoded as a part of a URL. */
  readonly AssumeRolePolicyDocument?: string;
  readonly Tags?: readonly AwsTag[];
}

const MISSING = /NoSuchEntity/;

export function roleArn({ identity }: AwsContext, name: string): string {
  return `arn:${identity.partition}:iam::${identity.account}:role/${name}`;
}

export async function findRole({ aws }: AwsContext, name: string): Promise<Role | undefined> {
  const found = await aws.find<{ Role?: Role }>("iam", "GetRole", { RoleName: name }, MISSING);
  return found?.Role;
}

/** Creates a role and attaches its policies, unless they exist. Resolves with its full name. */
export async function ensureRole(context: AwsContext, wanted: WantedRole): Promise<string> {
  const role = (await findRole(context, wanted.name)) ?? (await createRole(context, wanted));
  if (!isOwn(tagMap(role.Tags), context.target))
    throw new DeployError(
      "failed",
      `A role "${wanted.name}" already exists and does not belong to this target`,
      {
        outcome: "It was not changed",
        fix: "Choose another service name with --name, or remove that role yourself",
      },
    );
  await attachManaged(context, wanted);
  if (wanted.inline) await setInline(context, wanted.name, wanted.inline.name, wanted.inline.document);
  return role.Arn ?? roleArn(context, wanted.name);
}

/** What `removeRole` does to those of some roles that are of this target. */
export async function planRemoval(
  context: AwsContext,
  roles: readonly WantedRole[],
): Promise<ResourceAction[]> {
  const planned = await Promise.all(
    roles.map(async ({ name, purpose }) => {
      const role = await findRole(context, name);
      if (role === undefined || !isOwn(tagMap(role.Tags), context.target)) return [];
      return [
        {
          ...resourceAction("role", name, false, `deleted: the role ${purpose}`),
          action_type: "delete" as const,
        },
      ];
    }),
  );
  return planned.flat();
}

/** Deletes a role of this target, its policies first. */
export async function removeRole(context: AwsContext, name: string): Promise<void> {
  const { aws, tools, target } = context;
  const role = await findRole(context, name);
  if (role === undefined || !isOwn(tagMap(role.Tags), target)) return;
  for (const PolicyArn of await attachedPolicies(context, name))
    await tools.journal({ step: `role.detach ${name}` }, () =>
      gone(aws.send("iam", "DetachRolePolicy", { RoleName: name, PolicyArn }, { idempotent: true })),
    );
  const { PolicyNames = [] } =
    (await aws.find<{ PolicyNames?: string[] }>("iam", "ListRolePolicies", { RoleName: name }, MISSING)) ??
    {};
  for (const PolicyName of PolicyNames)
    await tools.journal({ step: `role.strip ${name}` }, () =>
      gone(aws.send("iam", "DeleteRolePolicy", { RoleName: name, PolicyName }, { idempotent: true })),
    );
  const stillUsed = {
    what: `role ${name} to be released`,
    matches: (error: CloudError) => error.code.startsWith("DeleteConflict"),
    budget: 60_000,
  };
  await tools.journal({ step: `role.delete ${name}` }, () =>
    gone(aws.send("iam", "DeleteRole", { RoleName: name }, { idempotent: true, propagation: [stillUsed] })),
  );
}

async function createRole(context: AwsContext, { name, principal }: WantedRole): Promise<Role> {
  const { aws, tools, target } = context;
  const document = {
    Version: "2012-10-17",
    Statement: [{ Effect: "Allow", Principal: { Service: principal }, Action: "sts:AssumeRole" }],
  };
  const made = await tools.journal({ step: `role.create ${name}` }, () =>
    aws.send<{ Role?: Role }>(
      "iam",
      "CreateRole",
      { RoleName: name, AssumeRolePolicyDocument: JSON.stringify(document), Tags: tagsOf(target) },
      {
        reread: async () => {
          const Role = await findRole(context, name);
          return Role && { Role };
        },
      },
    ),
  );
  return { Tags: tagsOf(target), ...made.Role };
}

async function attachManaged(context: AwsContext, { name, managed }: WantedRole): Promise<void> {
  const { aws, tools, identity } = context;
  const attached = await attachedPolicies(context, name);
  for (const policy of managed) {
    const PolicyArn = `arn:${identity.partition}:iam::aws:policy/${policy}`;
    if (attached.includes(PolicyArn)) continue;
    await tools.journal({ step: `role.attach ${name}` }, () =>
      aws.send("iam", "AttachRolePolicy", { RoleName: name, PolicyArn }, { idempotent: true }),
    );
  }
}

/** An inline policy of a role; undefined if there is none. */
export async function readInline({ aws }: AwsContext, name: string, policy: string): Promise<unknown> {
  const key = { RoleName: name, PolicyName: policy };
  const found = await aws.find<{ PolicyDocument?: string }>("iam", "GetRolePolicy", key, MISSING);
  return found?.PolicyDocument && JSON.parse(decodeURIComponent(found.PolicyDocument));
}

async function setInline(
  context: AwsContext,
  name: string,
  policy: string,
  document: object | undefined,
): Promise<void> {
  const { aws, tools } = context;
  const key = { RoleName: name, PolicyName: policy };
  if (isDeepStrictEqual(await readInline(context, name, policy), document)) return;
  await tools.journal({ step: `role.policy ${name}` }, () =>
    document === undefined
      ? gone(aws.send("iam", "DeleteRolePolicy", key, { idempotent: true }))
      : aws.send(
          "iam",
          "PutRolePolicy",
          { ...key, PolicyDocument: JSON.stringify(document) },
          { idempotent: true },
        ),
  );
}

async function attachedPolicies({ aws }: AwsContext, name: string): Promise<string[]> {
  const { AttachedPolicies = [] } =
    (await aws.find<{ AttachedPolicies?: { PolicyArn?: string }[] }>(
      "iam",
      "ListAttachedRolePolicies",
      { RoleName: name },
      MISSING,
    )) ?? {};
  return AttachedPolicies.flatMap(({ PolicyArn }) => PolicyArn ?? []);
}

/** What no longer exists need not be removed. */
async function gone(removal: Promise<unknown>): Promise<void> {
  try {
    await removal;
  } catch (error) {
    if (!(error instanceof CloudError) || !MISSING.test(error.code)) throw error;
  }
}
