import type { Answer } from "../http-server.ts";
import { aborted, invalid, refuse } from "./error.ts";
import type { GoogleState, Json, Policy } from "./state.ts";
import { etagOf } from "./state.ts";

export function readPolicy(policy: Policy): Answer {
  return { status: 200, body: structuredClone(policy) };
}

/** Replaces a policy that has not changed since it was read. */
export function writePolicy(state: GoogleState, kept: { policy: Policy }, body: Json): Answer {
  const given = body.policy as Partial<Policy> | undefined;
  if (!given) return invalid("policy is required");
  if (given.etag !== undefined && given.etag !== kept.policy.etag) return aborted();
  const members = (given.bindings ?? []).flatMap((binding) => binding.members ?? []);
  if (state.switches.forbidAllUsers && members.includes("allUsers"))
    return refuse(
      400,
      "FAILED_PRECONDITION",
      "One or more users named in the policy do not belong to a permitted customer,  perhaps due to an organization policy.",
    );
  kept.policy = { ...given, etag: etagOf(state), bindings: structuredClone(given.bindings ?? []) };
  return readPolicy(kept.policy);
}

export function holdsRole(policy: Policy, role: string, member: string): boolean {
  return policy.bindings.some((binding) => binding.role === role && binding.members.includes(member));
}
