import type { AgentSettings } from "../../agents/agent-settings.ts";
import type { MethodDefinition } from "../../agents/define-agent.ts";
import type { FieldsInput } from "../../agents/fields-input.ts";
import {
  type Parameters,
  UnreadableParameters,
  UnreadableStoredParameters,
} from "../../agents/parameters.ts";
import type { HostedAgent } from "../../agents/registry.ts";
import type { HandlerContext } from "../../agents/run-context.ts";
import type { Token } from "../../base/container.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { andThen, type MaybePromise } from "../../base/maybe-promise.ts";
import { startTimer } from "../../base/timer.ts";
import type { Hooks } from "../../entities/hooks.ts";
import type { StoredJob } from "../../models/job.ts";
import type { AgentProcesses } from "../isolation/agent-processes.ts";

export interface HandlerParts {
  readonly parameters: Parameters;
  readonly settings: AgentSettings;
  readonly hooks: Hooks;
  readonly log: Logger;
  /** The processes of agents that are isolated. */
  readonly processes?: AgentProcesses | undefined;
  /** Parts of plugins and of the service. */
  readonly get: <T>(token: Token<T>) => T;
}

/** What every handler of an agent gets, except for its signal. */
export type OpenedContext = Omit<HandlerContext<Readonly<Record<string, string>>>, "signal">;

/** The parameters of a job, by name. */
export interface OpenedParameters {
  /** Those that were sent with it; absent where none were. */
  readonly sent?: Readonly<Record<string, string>>;
  /** Those sent with the job, else kept for the agent, else of the environment, else as declared. */
  readonly values: Readonly<Record<string, string>>;
}

const NO_PARAMETERS: OpenedParameters = { values: {} };

/** Opens what was sent with a job, and what is known besides. */
export function openParameters(
  { parameters, settings }: HandlerParts,
  agent: HostedAgent,
  encrypted: string | null | undefined,
): MaybePromise<OpenedParameters> {
  const opened = encrypted ? { sent: parameters.open(encrypted, agent) } : undefined;
  // Where it declares none, none can be kept for it: a start that reads them waits for a database.
  if (!agent.definition.parameters?.length)
    return opened ? { ...opened, values: opened.sent } : NO_PARAMETERS;
  return andThen(settings.peek(agent.slug), (kept) => ({
    ...opened,
    values: { ...resolveKept(parameters, agent, kept?.parameters_encrypted), ...opened?.sent },
  }));
}

function resolveKept(parameters: Parameters, agent: HostedAgent, kept: string | null | undefined) {
  try {
    return parameters.resolve(agent, kept);
  } catch (error) {
    throw error instanceof UnreadableParameters ? new UnreadableStoredParameters(agent.slug) : error;
  }
}

/** Why the parameters of a job cannot be read with the present RSA key; nothing where they can. */
export async function whyUnreadable(
  parts: HandlerParts,
  agent: HostedAgent,
  { encrypted_agent_parameters }: Pick<StoredJob, "encrypted_agent_parameters">,
): Promise<string | undefined> {
  try {
    await openParameters(parts, agent, encrypted_agent_parameters);
    return undefined;
  } catch (error) {
    const isStored = error instanceof UnreadableStoredParameters;
    if (!isStored && !(error instanceof UnreadableParameters)) throw error;
    const whose = isStored ? `that are stored for agent "${agent.slug}"` : "that it was started with";
    return `The parameters ${whose} cannot be read with the present RSA key. The job is held: it resumes by itself once the service has the key that they were encrypted for (SERVICE_PREVIOUS_RSA_PRIVATE_KEY). It can also be retried once they can be read, or stopped.`;
  }
}

/** Throws `invalid_parameters` where a required parameter has no value. */
export function checkRequired(agent: HostedAgent, values: Readonly<Record<string, string>>): void {
  const { parameters } = agent.definition;
  if (!parameters) return;
  const missing = parameters
    .filter((one) => one.is_required && (values[one.name] ?? "").trim() === "")
    .map((one) => one.name);
  if (missing.length === 0) return;
  throw new ServiceError("invalid_parameters", `Agent "${agent.slug}" needs parameters that have no value`, {
    detail: `Missing: ${missing.join(", ")}. Send them in encrypted_agent_parameters, or store them for the agent.`,
  });
}

export async function toHandlerContext(
  parts: HandlerParts,
  agent: HostedAgent,
  job?: { readonly id: string; readonly encrypted_agent_parameters: string | null },
): Promise<OpenedContext> {
  const { values } = await openParameters(parts, agent, job?.encrypted_agent_parameters);
  const log = parts.log.with({ agent: agent.slug, ...(job && { job_id: job.id }) });
  return { ...servicesOf(parts, agent, job?.id), parameters: values, log };
}

/** What a handler gets of the service. */
export function servicesOf(
  { get, hooks }: HandlerParts,
  { id }: HostedAgent,
  jobId: string | undefined,
): Pick<OpenedContext, "get" | "telemetry"> {
  return {
    get,
    telemetry: ({ type, category = "application", severity = "info", details }) => {
      const telemetry = { agentId: id, type, category, severity, details };
      hooks.emit("telemetry", { telemetry, ...(jobId !== undefined && { job_id: jobId }) });
    },
  };
}

/** Calls a method beside a run, within its limit of time. */
export async function callMethod<C>(
  name: string,
  method: MethodDefinition<FieldsInput, C, unknown>,
  toContext: (signal: AbortSignal) => C,
  outer?: AbortSignal,
): Promise<unknown> {
  const own = new AbortController();
  const signal = outer ? AbortSignal.any([outer, own.signal]) : own.signal;
  return new Promise((resolve, reject) => {
    const { timeout } = method;
    const stop =
      timeout === undefined
        ? () => {}
        : startTimer(timeout * 1000, () => {
            const error = new ServiceError(
              "unavailable",
              `Method ${name} took longer than its ${timeout} s`,
              {
                detail: "Retry, or raise the method's timeout.",
              },
            );
            own.abort(error);
            reject(error);
          });
    const run = async () => method.run(toContext(signal));
    run().then(resolve, reject).finally(stop);
  });
}
