import type { AgentMethod } from "../models/agent-method.ts";
import type { AgentResponse } from "../models/agent-response.ts";
import type { AgentSettings } from "./agent-settings.ts";
import type { MethodDefinition } from "./define-agent.ts";
import { fieldsOf } from "./fields.ts";
import type { FieldsInput } from "./fields-input.ts";
import type { HostedAgent } from "./registry.ts";

type AnyMethod = MethodDefinition<FieldsInput, never, unknown>;

/** An agent as clients see it: without handlers and parameter values. */
export async function toAgentResponse(
  agent: HostedAgent,
  { prefix, settings }: { readonly prefix: string; readonly settings: AgentSettings },
): Promise<AgentResponse> {
  const { definition, slug, id } = agent;
  const setting = await settings.find(slug);
  return {
    name: definition.name,
    id,
    slug,
    author: definition.author ?? null,
    developer: definition.developer ?? null,
    maintainer: definition.maintainer ?? null,
    editor: definition.editor ?? null,
    version: definition.version,
    api_path: `${prefix}/agents/${slug}`,
    description: definition.description ?? "",
    tags: definition.tags ? [...definition.tags] : null,
    methods: toMethods(definition.methods),
    parameters_setup: (definition.parameters ?? []).map((parameter) => ({
      name: parameter.name,
      description: parameter.description ?? null,
      is_environment: parameter.is_environment ?? false,
      is_secret: parameter.is_secret ?? false,
      is_required: parameter.is_required ?? false,
    })),
    server_agent_id: null,
    server_agent_status: null,
    server_agent_onboarding_status: setting?.onboarding_status ?? null,
    // An envelope would let its readers try modified versions of it.
    server_encrypted_parameters: null,
  };
}

function toMethods(methods: HostedAgent["definition"]["methods"]): AgentResponse["methods"] {
  const one = (name: string, method: AnyMethod | undefined) => (method ? toMethod(name, method) : null);
  const custom = Object.entries(methods.custom ?? {}).map(([name, method]) => [name, toMethod(name, method)]);
  return {
    job_start: toMethod("job_start", methods.job_start as AnyMethod),
    job_stop: one("job_stop", methods.job_stop as AnyMethod),
    job_status: one("job_status", methods.job_status as AnyMethod),
    human_answer: one("human_answer", methods.human_answer as AnyMethod),
    chat: one("chat", methods.chat as AnyMethod),
    custom: methods.custom ? Object.fromEntries(custom) : null,
  };
}

function toMethod(name: string, method: AnyMethod): AgentMethod {
  return {
    name: method.name ?? name,
    method: method.run.name === "run" ? name : method.run.name,
    params: method.params ?? null,
    fields: method.fields ? [...fieldsOf(method).list] : null,
    description: method.description ?? null,
    nodes: method.nodes
      ? {
          nodes: method.nodes.map((node) => ({
            name: node.name,
            type: node.type,
            description: node.description ?? null,
            can_be_confirmed: node.can_be_confirmed ?? false,
          })),
        }
      : null,
    timeout: method.timeout ?? null,
  };
}
