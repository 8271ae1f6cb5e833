import compareBuild from "semver/functions/compare-build.js";
import valid from "semver/functions/valid.js";
import { ServiceError } from "../base/errors.ts";
import type { Sight } from "../models/access.ts";
import { fingerprintOfAgent, mentionsRead } from "./agent-code.ts";
import type { AgentDefinition } from "./define-agent.ts";
import { toAgentId, toSlug } from "./identity.ts";
import { AgentError, validateAgent } from "./validate-agent.ts";

/** One version of an agent on this service. */
export interface HostedAgent {
  readonly definition: AgentDefinition;
  readonly slug: string;
  readonly id: string;
  /** Fingerprint of its code. */
  readonly code: string;
  /** Whether its handler may read its job or cases: the source of its `job_start` says so, or it has done it. */
  mayRead: boolean;
}

/** What a job says of its agent; a job of an earlier version of the service does not say which version it is. */
export interface AgentOfJob {
  readonly agent_name: string;
  readonly agent_version?: string | null;
}

/** The agents of a service, by slug. Several versions of one may exist side by side. */
export class AgentRegistry {
  /** The newest version of each first. */
  readonly #agents = new Map<string, HostedAgent[]>();

  /**
   * Throws an `AgentError` where a definition has a mistake, two agents have one slug and one version, or a name gives no
   * slug. `build` gives the fingerprint of what the agents' own functions call.
   */
  constructor(definitions: readonly AgentDefinition[], build: () => string = () => "") {
    for (const definition of definitions) {
      validateAgent(definition);
      const slug = toSlug(definition.name);
      if (slug === "") throw new AgentError(definition.name, "the name needs at least one letter or digit");
      const versions = this.#agents.get(slug) ?? [];
      const other = versions.find((one) => one.definition.version === definition.version);
      if (other) {
        throw new AgentError(
          definition.name,
          `agent "${other.definition.name}" has the same slug "${slug}" and the same version: rename one of them, or give it another version`,
        );
      }
      let code: string | undefined;
      versions.push({
        ...{ definition, slug, id: toAgentId(definition.name), mayRead: mentionsRead(definition) },
        get code() {
          code ??= fingerprintOfAgent(definition, build());
          return code;
        },
      });
      versions.sort((a, b) => compareVersions(b.definition.version, a.definition.version));
      this.#agents.set(slug, versions);
    }
  }

  /** The same for a caller who sees a part: other agents do not exist. Who sees questions only sees none. */
  seenBy({ agents, askedOf }: Sight): AgentRegistry {
    const seen = new AgentRegistry([]);
    for (const [slug, versions] of askedOf ? [] : this.#agents) {
      if (agents === undefined || agents.includes(slug)) seen.#agents.set(slug, versions);
    }
    return seen;
  }

  /** The newest version of each agent. */
  list(): HostedAgent[] {
    return [...this.#agents.values()].map((versions) => versions[0]!);
  }

  /** The newest version of an agent. */
  find(slug: string): HostedAgent | undefined {
    return this.#agents.get(slug)?.[0];
  }

  /** All versions of an agent, the newest first. */
  versions(slug: string): readonly HostedAgent[] {
    return this.#agents.get(slug) ?? [];
  }

  /** The version that a job belongs to; where that is not here, the newest. Of a job that does not say, the oldest. */
  of({ agent_name, agent_version }: AgentOfJob): HostedAgent | undefined {
    const versions = this.#agents.get(agent_name);
    if (!versions || versions.length === 1) return versions?.[0];
    if (agent_version == null) return versions.at(-1);
    return versions.find(({ definition }) => definition.version === agent_version) ?? versions[0];
  }

  /** The newest version of an agent, or `agent_not_found`. */
  get(slug: string): HostedAgent {
    const agent = this.find(slug);
    if (agent) return agent;
    throw new ServiceError("agent_not_found", `Unknown agent "${slug}"`, {
      detail: `Agents on this service: ${[...this.#agents.keys()].join(", ")}.`,
    });
  }
}

/** By semver where both are such versions; else by their numbers and letters. */
export function compareVersions(a: string, b: string): number {
  if (valid(a) && valid(b)) return compareBuild(a, b);
  return a.localeCompare(b, "en", { numeric: true });
}
