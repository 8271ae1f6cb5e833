import { hash } from "node:crypto";
import { type CheckedFields, describeProblems, fieldsOf } from "../agents/fields.ts";
import type { HostedAgent } from "../agents/registry.ts";
import { ServiceError } from "../base/errors.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import type { NewJob } from "../entities/jobs.ts";
import type { StartRequest } from "./runner.ts";

/** The job that a request asks for; throws `invalid_parameters` where its fields do not fit. */
export function toNewJob(
  agent: HostedAgent,
  request: StartRequest,
  parameterNames: readonly string[],
): MaybePromise<NewJob> {
  const checking = fieldsOf(agent.definition.methods.job_start).check(request.job_fields);
  return andThen(checking, (checked) => toJob(agent, request, { checked, parameterNames }));
}

function toJob(
  { definition, slug }: HostedAgent,
  request: StartRequest,
  {
    checked,
    parameterNames,
  }: { readonly checked: CheckedFields; readonly parameterNames: readonly string[] },
): NewJob {
  if (!checked.ok) throw invalidFields(slug, checked.problems);
  const { job_context: context } = request;
  const name = context.mission_name.trim() === "" ? definition.name : context.mission_name;
  return {
    id: context.job_id,
    name: name.slice(0, 500),
    agent_name: slug,
    job_context: context,
    job_fields: checked.stored,
    fingerprint: fingerprintOf(slug, request),
    encrypted_agent_parameters: request.encrypted_agent_parameters ?? null,
    agent_parameters: parameterNames.length === 0 ? null : parameterNames.map((one) => ({ name: one })),
    idempotency_key: request.idempotencyKey ?? null,
  };
}

/** The same for requests that ask for the same. */
export function fingerprintOf(slug: string, request: StartRequest): string {
  const content = [slug, request.job_context, request.job_fields, request.encrypted_agent_parameters ?? null];
  return hash("sha256", JSON.stringify(inOrder(content)), "base64url");
}

/** The same request for a job of another id. */
export function withJobId(request: StartRequest, job_id: string): StartRequest {
  return { ...request, job_context: { ...request.job_context, job_id } };
}

/** Two writings of one object differ in the order of its keys. */
function inOrder(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(inOrder);
  if ("toJSON" in value) return value;
  const keys = Object.keys(value).sort();
  // An object without a prototype can have a key "__proto__", and costs more to fill and to write out.
  const sorted = (keys.includes("__proto__") ? Object.create(null) : {}) as Record<string, unknown>;
  for (const key of keys) sorted[key] = inOrder((value as Record<string, unknown>)[key]);
  return sorted;
}

/** The error for job fields that do not fit their method. */
export function invalidFields(slug: string, problems: Readonly<Record<string, string>>): ServiceError {
  return new ServiceError("invalid_parameters", `The fields are not valid for agent "${slug}"`, {
    detail: `${describeProblems(problems)}.`,
  });
}
