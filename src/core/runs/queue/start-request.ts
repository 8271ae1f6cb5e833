import { hash } from "node:crypto";
import { type JobKey, readJobKey } from "../../agents/concurrency.ts";
import { type CheckedFields, describeProblems, fieldsOf } from "../../agents/fields.ts";
import { limitsOf } from "../../agents/instructions.ts";
import type { HostedAgent } from "../../agents/registry.ts";
import { messageOf } from "../../base/error-text.ts";
import { ServiceError } from "../../base/errors.ts";
import { inOrder } from "../../base/in-order.ts";
import { andThen, type MaybePromise } from "../../base/maybe-promise.ts";
import type { NewJob } from "../../entities/create-job.ts";
import type { JobContext, StartContext } from "../../models/job-context.ts";
import { withTags } from "../../models/tags.ts";
import type { StartRequest } from "../runner.ts";

/** A start request whose job has an id: the one that was asked for, or a new one. */
export interface NamedRequest extends StartRequest {
  readonly job_context: Partial<StartContext> & { readonly job_id: string };
}

/** What a job's context has where the request does not say it. */
export interface ContextDefaults {
  readonly workspace: string;
  readonly now: Date;
}

/** The job that a request asks for; throws `invalid_parameters` where its fields do not fit. */
export function toNewJob(
  agent: HostedAgent,
  request: NamedRequest,
  given: { readonly parameterNames: readonly string[]; readonly defaults: ContextDefaults },
): MaybePromise<NewJob> {
  const checking = fieldsOf(agent.definition.methods.job_start).check(request.job_fields ?? {});
  return andThen(checking, (checked) => toJob(agent, request, { checked, ...given }));
}

function toJob(
  { definition, slug, code }: HostedAgent,
  request: NamedRequest,
  {
    checked,
    parameterNames,
    defaults,
  }: {
    readonly checked: CheckedFields;
    readonly parameterNames: readonly string[];
    readonly defaults: ContextDefaults;
  },
): NewJob {
  if (!checked.ok) throw invalidFields(slug, checked.problems);
  const context = toContext(request.job_context, definition, defaults);
  const name = context.mission_name.trim() === "" ? definition.name : context.mission_name;
  return {
    id: context.job_id,
    name: name.slice(0, 500),
    agent_name: slug,
    agent_version: definition.version,
    code_fingerprint: code,
    job_context: context,
    job_fields: checked.stored,
    ...keysOf(definition, slug, checked.values),
    fingerprint: fingerprintOf(slug, request),
    encrypted_agent_parameters: request.encrypted_agent_parameters ?? null,
    agent_parameters: parameterNames.length === 0 ? null : parameterNames.map((one) => ({ name: one })),
    idempotency_key: request.idempotencyKey ?? null,
    ...(request.access !== undefined && { access: request.access }),
    ...(request.tags && request.tags.length > 0 && { tags: withTags(undefined, request.tags) }),
  };
}

/** What limits of the agent count a job with these fields by. */
function keysOf(
  { concurrency, rateLimit }: HostedAgent["definition"],
  slug: string,
  fields: Readonly<Record<string, unknown>>,
): Pick<NewJob, "concurrency_key" | "rate_key"> {
  const read = (what: string, key: JobKey | undefined): string | null => {
    try {
      return readJobKey(key, fields);
    } catch (error) {
      const message = `The ${what} key of agent "${slug}" has no value`;
      throw new ServiceError("invalid_parameters", message, { detail: messageOf(error), cause: error });
    }
  };
  return {
    concurrency_key: concurrency ? read("concurrency", concurrency.key) : null,
    ...(rateLimit?.key !== undefined && { rate_key: read("rate limit", rateLimit.key) }),
  };
}

function toContext(
  given: NamedRequest["job_context"],
  { name: agentName, instructions }: HostedAgent["definition"],
  { workspace, now }: ContextDefaults,
): JobContext {
  return {
    workspace_id: given.workspace_id ?? workspace,
    job_id: given.job_id,
    started_by: given.started_by ?? "api",
    started_at: given.started_at ?? now.toISOString(),
    mission_id: given.mission_id ?? given.job_id,
    mission_name: given.mission_name ?? agentName,
    mission_context: given.mission_context ?? null,
    job_instructions: limitsOf(instructions, given.job_instructions),
  };
}

/** The same for requests that ask for the same: of what was sent, as the defaults hold another time at each request. */
export function fingerprintOf(slug: string, request: NamedRequest): string {
  const { job_instructions: given } = request.job_context;
  const context = {
    mission_context: null,
    ...request.job_context,
    job_instructions: limitsOf(undefined, given),
  };
  const { job_fields, encrypted_agent_parameters: parameters, tags = [] } = request;
  const content = [slug, context, job_fields ?? {}, parameters ?? null, ...(tags.length > 0 ? [tags] : [])];
  return hash("sha256", JSON.stringify(inOrder(content)), "base64url");
}

/** The same request for a job of this id. */
export function withJobId(request: StartRequest, job_id: string): NamedRequest {
  return { ...request, job_context: { ...request.job_context, job_id } };
}

/** The error for job fields that do not fit their method. */
export function invalidFields(slug: string, problems: Readonly<Record<string, string>>): ServiceError {
  return new ServiceError("invalid_parameters", `Invalid fields for agent "${slug}"`, {
    detail: `${describeProblems(problems)}.`,
  });
}
