import * as v from "valibot";
import { isRecord } from "../base/is-record.ts";
import { type NamesOf, unknownOption } from "../base/refuse-unknown.ts";
import { unknownMembers } from "../base/unknown-members.ts";
import { CaseNodeSchema } from "../models/case-node.ts";
import { ParameterSchema } from "../models/parameter.ts";
import { BUDGET_NAMES, problemOfBudget } from "./budget.ts";
import { CONCURRENCY_NAMES, problemOfConcurrency, problemOfRate, RATE_NAMES } from "./concurrency.ts";
import type { AgentDefinition, MethodDefinition } from "./define-agent.ts";
import { fieldsOf, unknownInFields } from "./fields.ts";
import type { FieldsInput } from "./fields-input.ts";
import { INSTRUCTION_NAMES, problemOfInstructions } from "./instructions.ts";
import { ISOLATE_NAMES, readIsolation } from "./isolate-options.ts";
import { problemOf, RETENTION_NAMES } from "./retention-policy.ts";
import { problemOfPrompts, problemOfResources } from "./shared-texts.ts";
import { isSuspendAfter, SUSPEND_RULE } from "./suspend-after.ts";

const POLICIES = ["resume", "restart", "fail"];

/** The names of an agent's options. */
export const AGENT_NAMES: NamesOf<AgentDefinition> = {
  ...{ name: true, version: true, description: true, author: true, developer: true, maintainer: true },
  ...{ editor: true, tags: true, prompts: true, resources: true, parameters: true },
  ...{ onInterruption: true, maxConcurrentJobs: true },
  ...{ concurrency: true, rateLimit: true, budget: true, instructions: true, isolate: true },
  ...{ suspendAfter: true, chats: true, retention: true, methods: true },
};
/** Options of an agent that are objects, with the names that each has. */
const PART_NAMES = {
  concurrency: CONCURRENCY_NAMES,
  rateLimit: RATE_NAMES,
  budget: BUDGET_NAMES,
  instructions: INSTRUCTION_NAMES,
  isolate: ISOLATE_NAMES,
  retention: RETENTION_NAMES,
} as const;
const METHODS: NamesOf<AgentDefinition["methods"]> = {
  ...{ job_start: true, job_stop: true, job_status: true, human_answer: true, chat: true, custom: true },
};
const METHOD_NAMES: NamesOf<MethodDefinition<FieldsInput, unknown, unknown>> = {
  ...{ name: true, description: true, fields: true, params: true, nodes: true, timeout: true, run: true },
};

/** Throws an `AgentError` that names the first mistake in an agent's definition. */
export function validateAgent(agent: AgentDefinition): void {
  const name = (agent as AgentDefinition | undefined)?.name;
  if (typeof name !== "string" || name.trim() === "") {
    throw new AgentError(String(name), "name must be text that is not empty");
  }
  const refuse = (problem: string): never => {
    throw new AgentError(name, problem);
  };
  checkNames(agent, refuse);
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
  const wrongPrompts = problemOfPrompts(agent.prompts);
  if (wrongPrompts) refuse(`prompts${wrongPrompts}`);
  const wrongResources = problemOfResources(agent.resources);
  if (wrongResources) refuse(`resources${wrongResources}`);
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

function checkNames(agent: AgentDefinition, refuse: Refuse): void {
  const unknown = unknownOption(agent, AGENT_NAMES);
  if (unknown !== undefined) refuse(unknown);
  for (const [part, names] of Object.entries(PART_NAMES)) {
    const given: unknown = agent[part as keyof typeof PART_NAMES];
    if (!isRecord(given)) continue;
    const inPart = unknownOption(given, names);
    if (inPart !== undefined) refuse(`${part}.${inPart}`);
  }
}

function checkParameters(agent: AgentDefinition, refuse: Refuse): void {
  const seen = new Set<string>();
  for (const [at, parameter] of (agent.parameters ?? []).entries()) {
    const [unknown] = unknownMembers(ParameterSchema, parameter);
    if (unknown) refuse(`parameters[${at}].${unknown.path} ${unknown.problem}`);
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
  const unknown = unknownOption(methods, METHODS);
  if (unknown !== undefined)
    refuse(`methods.${unknown}${unknown.endsWith("?") ? " Put" : "; put"} other methods in methods.custom`);
  for (const [name, method] of Object.entries(methods)) {
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
  const unknown = unknownOption(method, METHOD_NAMES);
  if (unknown !== undefined) refuse(`${path}.${unknown}`);
  const { timeout } = method;
  if (timeout !== undefined && !(Number.isFinite(timeout) && timeout > 0)) {
    refuse(`${path}.timeout must be a number of seconds above 0`);
  }
  for (const [at, node] of (method.nodes ?? []).entries()) {
    const [member] = unknownMembers(CaseNodeSchema, node);
    if (member) refuse(`${path}.nodes[${at}].${member.path} ${member.problem}`);
    if (!v.is(CaseNodeSchema, node)) refuse(`${path}.nodes[${at}] needs a name and a known type`);
  }
  const inFields = unknownInFields(method.fields);
  if (inFields !== undefined) refuse(`${path}.fields${inFields}`);
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
