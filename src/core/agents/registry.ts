import { ServiceError } from "../base/errors.ts";
import { AgentError } from "./agent-error.ts";
import type { AgentDefinition } from "./define-agent.ts";
import { toAgentId, toSlug } from "./identity.ts";
import { validateAgent } from "./validate-agent.ts";

/** An agent on this service. */
export interface HostedAgent {
  readonly definition: AgentDefinition;
  readonly slug: string;
  readonly id: string;
}

/** The agents of a service, by slug. */
export class AgentRegistry {
  readonly #agents = new Map<string, HostedAgent>();

  /** Throws an `AgentError` where a definition has a mistake, two agents have one slug, or a name gives none. */
  constructor(definitions: readonly AgentDefinition[]) {
    for (const definition of definitions) {
      validateAgent(definition);
      const slug = toSlug(definition.name);
      if (slug === "") throw new AgentError(definition.name, "the name needs at least one letter or digit");
      const other = this.#agents.get(slug);
      if (other) {
        throw new AgentError(
          definition.name,
          `agent "${other.definition.name}" has the same slug "${slug}": rename one of them`,
        );
      }
      this.#agents.set(slug, { definition, slug, id: toAgentId(definition.name) });
    }
  }

  list(): HostedAgent[] {
    return [...this.#agents.values()];
  }

  find(slug: string): HostedAgent | undefined {
    return this.#agents.get(slug);
  }

  /** The agent, or `agent_not_found`. */
  get(slug: string): HostedAgent {
    const agent = this.#agents.get(slug);
    if (agent) return agent;
    throw new ServiceError("agent_not_found", `There is no agent "${slug}"`, {
      detail: `Agents here: ${[...this.#agents.keys()].join(", ")}.`,
    });
  }
}
