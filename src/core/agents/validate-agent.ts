import * as v from "valibot";
import { CaseNodeSchema } from "../models/case-node.ts";
import { ParameterSchema } from "../models/parameter.ts";
import { problemOfBudget } from "./budget.ts";
import { problemOfConcurrency, problemOfRate } from "./concurrency.ts";
import type { AgentDefinition, MethodDefinition } from "./define-agent.ts";
import { fieldsOf } from "./fields.ts";
import type { FieldsInput } from "./fields-input.ts";
import { problemOfInstructions } from "./instructions.ts";
import { readIsolation } from "./isolate-options.ts";
import { problemOf } from "./retention-policy.ts";
import { isSuspendAfter, SUSPEND_RULE } from "./suspend-after.ts";

const POLICIES = ["resume", "restart", "fail"];
const METHODS = ["job_start", "job_stop", "job_status", "human_answer", "chat", "custom"];

/** Throws an `AgentError` that names the first mistake in an agent's definition. */
export function validateAgent(agent: AgentDefinition): void {
  const name = (agent as AgentDefinition | undefined)?.name;
  if (typeof name !== "string" || name.trim() === "") {
    throw new AgentError(String(name), "name must be text that is not empty");
  }
  const refuse = (problem: string): never => {
    throw new AgentError(name, problem);
  };
  if (typeof agent.version !== "string" || agent.version === "")
    refuse('version must be text such as "1.0.0"');
  const policy = agent.onInterruption;
  if (policy !== undefined && !POLICIES.includes(policy)) {
    refuse(`onInterruption must be one of ${POLICIES.join(", ")}`);
  }
  const most = agent.maxConcurrentJobs;
  if (most !== undefined && !(Number.isInteger(most) && most > 0)) {
    refuse("maxConcurrentJobs must be a whole number, at least 1");
  }
  const problem = agent.retention === undefined ? undefined : problemOf(agent.retention);
  if (problem) refuse(`retention${problem.startsWith(".") ? "" : " "}${problem}`);
  if (agent.suspendAfter !== undefined && !isSuspendAfter(agent.suspendAfter))
    refuse(`suspendAfter ${SUSPEND_RULE}`);
  try {
    readIsolation(agent.isolate);
  } catch (error) {
    refuse((error as Error).message);
  }
  checkParameters(agent, refuse);
  checkMethods(agent, refuse);
  const names = fieldsOf(agent.methods.job_start).list.map(({ name }) => name);
  const wrongBudget = agent.budget === undefined ? undefined : problemOfBudget(agent.budget);
  if (wrongBudget) refuse(`budget ${wrongBudget}`);
  const wrongLimits =
    agent.instructions === undefined ? undefined : problemOfInstructions(agent.instructions);
  if (wrongLimits) refuse(`instructions ${wrongLimits}`);
  const wrong = agent.concurrency && problemOfConcurrency(agent.concurrency, names);
  if (wrong) refuse(`concurrency.${wrong}`);
  const wrongRate = agent.rateLimit && problemOfRate(agent.rateLimit, names);
  if (wrongRate) refuse(`rateLimit.${wrongRate}`);
}

type Refuse = (problem: string) => never;

function checkParameters(agent: AgentDefinition, refuse: Refuse): void {
  const seen = new Set<string>();
  for (const [at, parameter] of (agent.parameters ?? []).entries()) {
    const places = v
      .safeParse(ParameterSchema, parameter)
      .issues?.map((issue) => v.getDotPath(issue) ?? "it");
    if (places) refuse(`parameters[${at}]: ${places.join(", ")} is not valid`);
    if (seen.has(parameter.name)) refuse(`there are two parameters named "${parameter.name}"`);
    seen.add(parameter.name);
  }
}

function checkMethods({ methods }: AgentDefinition, refuse: Refuse): void {
  if (typeof methods?.job_start?.run !== "function") {
    refuse("methods.job_start needs a run function");
  }
  for (const [name, method] of Object.entries(methods)) {
    if (!METHODS.includes(name)) {
      refuse(`methods.${name} is unknown: use ${METHODS.join(", ")}; put other methods in methods.custom`);
    }
    if (name !== "custom" && method !== undefined) {
      checkMethod(`methods.${name}`, method as unknown as Method, refuse);
    }
  }
  for (const [name, method] of Object.entries(methods.custom ?? {})) {
    if (!/^[A-Za-z0-9_-]{1,100}$/.test(name)) {
      refuse(`methods.custom["${name}"]: a name has 1 to 100 letters, digits, "_" and "-"`);
    }
    checkMethod(`methods.custom.${name}`, method as unknown as Method, refuse);
  }
}

type Method = MethodDefinition<FieldsInput, unknown, unknown>;

function checkMethod(path: string, method: Method, refuse: Refuse): void {
  if (typeof method?.run !== "function") refuse(`${path} needs a run function`);
  const { timeout } = method;
  if (timeout !== undefined && !(Number.isFinite(timeout) && timeout > 0)) {
    refuse(`${path}.timeout must be a number of seconds above 0`);
  }
  for (const [at, node] of (method.nodes ?? []).entries()) {
    if (!v.is(CaseNodeSchema, node)) refuse(`${path}.nodes[${at}] needs a name and a known type`);
  }
  try {
    fieldsOf(method);
  } catch (error) {
    const problem = (error as Error).message;
    refuse(`${path}.fields${problem.startsWith("[") ? problem : ` ${problem}`}`);
  }
}

/** A mistake in an agent's definition, found when the service is made. */
export class AgentError extends Error {
  override readonly name = "AgentError";
  constructor(agent: string, problem: string) {
    super(`Agent "${agent}": ${problem}`);
  }
}
