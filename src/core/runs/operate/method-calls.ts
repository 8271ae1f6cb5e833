import type { MethodDefinition } from "../../agents/define-agent.ts";
import { fieldsOf } from "../../agents/fields.ts";
import type { FieldsInput } from "../../agents/fields-input.ts";
import type { HostedAgent } from "../../agents/registry.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { StoredJob } from "../../models/job.ts";
import { callBesideRun } from "../isolation/call-method.ts";
import { invalidFields } from "../queue/start-request.ts";
import { callMethod, type HandlerParts, toHandlerContext } from "../replay/handler-context.ts";
import type { MethodCall } from "../runner.ts";
import { describeJob, toJobResponse } from "./job-response.ts";

type AnyMethod = MethodDefinition<FieldsInput, never, unknown>;

/** Calls `chat`, `job_status` or a custom method, beside whatever runs. */
export async function callBeside(
  parts: HandlerParts & { readonly jobs: Jobs },
  agent: HostedAgent,
  call: MethodCall,
): Promise<unknown> {
  const { methods } = agent.definition;
  const found = call.jobId === undefined ? undefined : await parts.jobs.find(call.jobId);
  // Another agent's job is nobody's business here.
  const job = found?.agent_name === agent.slug ? found : undefined;
  if (call.method === "job_status" && call.jobId !== undefined && !job)
    await parts.jobs.get(call.jobId, agent.slug);
  if (call.method === "job_status" && !methods.job_status && job) return describeJob(job);

  const name = call.method === "custom" ? (call.name ?? "") : call.method;
  const method = findMethod(agent, name, call.method === "custom");
  const fields = await fieldsOf(method).check(givenFields(method, call));
  if (!fields.ok) throw invalidFields(agent.slug, fields.problems);
  const context = await toHandlerContext(parts, agent, job);
  const params = { ...method.params, ...call.params };
  const shown = job && (await parts.jobs.show(job));
  const isCustom = call.method === "custom";
  const isolated = inProcessOf(parts, agent, { name, isCustom });
  const answer = await callMethod(
    name,
    (isolated ? { ...method, run: isolated } : method) as MethodDefinition<FieldsInput, unknown, unknown>,
    (signal) => ({
      ...{ ...context, signal, params, job: shown },
      fields: isolated ? givenFields(method, call) : fields.values,
    }),
  );
  return call.method === "chat" ? answer : toJobResponse(answer, job, call.jobId);
}

/** Calls the agent's `job_stop`, where it has one; a failure of it is logged. */
export async function callJobStop(
  parts: HandlerParts & { readonly jobs: Jobs },
  job: StoredJob,
  agent: HostedAgent | undefined,
): Promise<void> {
  const method = agent?.definition.methods.job_stop;
  if (!agent || !method) return;
  try {
    const context = await toHandlerContext(parts, agent, job);
    const shown = await parts.jobs.show(job);
    const run = inProcessOf(parts, agent, { name: "job_stop" });
    await callMethod("job_stop", run ? { ...method, run } : method, (signal) => ({
      ...context,
      signal,
      job: shown,
    }));
  } catch (error) {
    parts.log.error("job_stop failed; the job is cancelled anyway", { job_id: job.id, error });
  }
}

/** Runs a method of an isolated agent in a process of its own. */
function inProcessOf(
  { processes }: HandlerParts,
  agent: HostedAgent,
  method: { readonly name: string; readonly isCustom?: boolean },
): ((context: object) => Promise<unknown>) | undefined {
  if (!agent.definition.isolate || !processes) return undefined;
  return (context) => callBesideRun(processes, agent, { ...method, context: { ...context } });
}

/** A chat's inputs are sent as its params. */
function givenFields({ fields }: AnyMethod, call: MethodCall): Readonly<Record<string, unknown>> {
  if (call.method === "chat") return fields ? call.params : {};
  return call.method === "custom" ? (call.fields ?? {}) : {};
}

/** An agent's method by name, `not_found` where it has none. */
export function findMethod(agent: HostedAgent, name: string, onlyCustom = false): AnyMethod {
  const { custom, ...own } = agent.definition.methods;
  const all: Record<string, unknown> = { ...custom, ...(onlyCustom ? {} : own) };
  const method = Object.hasOwn(all, name) ? all[name] : undefined;
  if (method) return method as AnyMethod;
  throw new ServiceError("not_found", `Agent "${agent.slug}" has no method "${name}"`, {
    detail: `Its methods: ${Object.keys(all).join(", ") || "none"}.`,
  });
}
