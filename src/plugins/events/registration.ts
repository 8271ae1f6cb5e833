import { toAgentResponse } from "../../core/agents/agent-response.ts";
import type { AgentSettings } from "../../core/agents/agent-settings.ts";
import type { Parameters } from "../../core/agents/parameters.ts";
import type { AgentRegistry } from "../../core/agents/registry.ts";
import type { NewEvent } from "../../core/delivery/events.ts";
import type { ServiceState } from "../../core/http/service-state.ts";
import { agentRegisterEvent } from "../../core/models/events/agent-register-event.ts";
import { serverRegisterEvent } from "../../core/models/events/server-register-event.ts";
import type { ResolvedOptions } from "../../core/service/options.ts";

export interface RegistrationParts {
  readonly state: ServiceState;
  readonly options: ResolvedOptions;
  readonly agents: AgentRegistry;
  readonly settings: AgentSettings;
  readonly parameters: Parameters;
}

/**
 * The events that register this server and its agents with the control system, in the order that it requires.
 */
export async function registrationEvents(parts: RegistrationParts): Promise<NewEvent[]> {
  const { state, options, agents, settings, parameters } = parts;
  const url = state.publicUrl;
  if (url === undefined) return [];
  const known = await Promise.all(
    agents.list().map((agent) => toAgentResponse(agent, { prefix: options.apiPrefix, settings })),
  );
  const info = state.info();
  const server = serverRegisterEvent(info.id, {
    url,
    api_version: info.api_version,
    environment: info.environment,
    public_key: parameters.publicKeyPem(),
    agents: known,
  });
  return [server, ...known.map(agentRegisterEvent)];
}
