import type { AgentRegistry } from "../agents/registry.ts";
import { ServiceError } from "../base/errors.ts";

/** Throws `invalid_request` where limits of a key or a person name an agent that does not exist. */
export function assertAgentsExist(
  slugs: readonly string[] | undefined,
  agents: Pick<AgentRegistry, "get">,
  what: string,
): void {
  for (const slug of slugs ?? []) {
    try {
      agents.get(slug);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      throw new ServiceError("invalid_request", `${what} names the agent "${slug}", which does not exist`, {
        detail: "GET /agents lists the agents.",
      });
    }
  }
}
