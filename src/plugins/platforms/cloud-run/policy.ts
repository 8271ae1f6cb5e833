import { isDeepStrictEqual } from "node:util";
import { isCloudError } from "../cloud/cloud-error.ts";
import type { Context } from "./context.ts";
import type { GoogleApi } from "./google.ts";

interface Policy {
  readonly version?: number;
  readonly etag?: string;
  readonly bindings?: readonly Binding[];
}

interface Binding {
  readonly role: string;
  readonly members?: readonly string[];
  readonly condition?: unknown;
}

export interface Grant {
  readonly api: GoogleApi;
  /** Path of the resource, version included. */
  readonly resource: string;
  readonly role: string;
  readonly member: string;
  /** Name of the journal's step. */
  readonly step: string;
}

const CONFLICTS = 5;

export async function isGranted(context: Context, grant: Grant): Promise<boolean> {
  return holds(await readPolicy(context, grant), grant);
}

/** Adds one member to one role, against the policy that was read; other bindings stay unchanged. */
export function ensureGrant(context: Context, grant: Grant): Promise<boolean> {
  return changePolicy(context, grant, (policy) =>
    holds(policy, grant) ? undefined : withGrant(policy, grant),
  );
}

/** Removes one member from one role, with and without conditions; other bindings stay unchanged. */
export function dropGrant(context: Context, grant: Grant): Promise<boolean> {
  return changePolicy(context, grant, (policy) => {
    const bindings = (policy.bindings ?? []).map((binding) =>
      binding.role === grant.role
        ? { ...binding, members: (binding.members ?? []).filter((member) => member !== grant.member) }
        : binding,
    );
    const left = bindings.filter(({ members = [] }) => members.length > 0);
    return isDeepStrictEqual(left, policy.bindings ?? []) ? undefined : left;
  });
}

async function changePolicy(
  context: Context,
  grant: Grant,
  plan: (policy: Policy) => readonly Binding[] | undefined,
): Promise<boolean> {
  for (let conflicts = 0; ; conflicts++) {
    const policy = await readPolicy(context, grant);
    const bindings = plan(policy);
    if (bindings === undefined) return false;
    try {
      await context.tools.journal({ step: grant.step, data: { role: grant.role } }, () =>
        write(context, grant, { ...policy, bindings }),
      );
      return true;
    } catch (error) {
      if (!isCloudError(error) || ![409, 412].includes(error.status) || conflicts >= CONFLICTS) throw error;
      await context.tools.sleep(1000);
    }
  }
}

async function readPolicy(context: Context, { api, resource }: Grant): Promise<Policy> {
  const google = await context.google();
  if (api === "storage")
    return google.get<Policy>(api, `${resource}/iam`, { optionsRequestedPolicyVersion: 3 });
  // Without the version a policy with conditions would be written back without them.
  return google.get<Policy>(api, `${resource}:getIamPolicy`, { "options.requestedPolicyVersion": 3 });
}

function withGrant(policy: Policy, { role, member }: Grant): readonly Binding[] {
  const bindings = [...(policy.bindings ?? [])];
  const index = bindings.findIndex((binding) => binding.role === role && !binding.condition);
  const present = bindings[index];
  if (present) bindings[index] = { ...present, members: [...(present.members ?? []), member] };
  else bindings.push({ role, members: [member] });
  return bindings;
}

async function write(context: Context, grant: Grant, policy: Policy): Promise<void> {
  const google = await context.google();
  if (grant.api === "storage") {
    await google.send(grant.api, "PUT", `${grant.resource}/iam`, { body: policy, idempotent: true });
    return;
  }
  // The etag makes a second call a conflict rather than a second change.
  await google.send(grant.api, "POST", `${grant.resource}:setIamPolicy`, {
    body: { policy },
    idempotent: true,
  });
}

function holds(policy: Policy, { role, member }: Grant): boolean {
  return (policy.bindings ?? []).some(
    (binding) => binding.role === role && !binding.condition && binding.members?.includes(member),
  );
}
