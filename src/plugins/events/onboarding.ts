import * as v from "valibot";
import type { AgentSettings } from "../../core/agents/agent-settings.ts";
import type { Parameters } from "../../core/agents/parameters.ts";
import type { AgentRegistry } from "../../core/agents/registry.ts";
import type { Caller } from "../../core/audit/caller.ts";
import type { Logger } from "../../core/base/log.ts";
import type { Fetch } from "../../core/delivery/post-json.ts";
import type { Account } from "../../core/models/account.ts";
import { accountHeaders, controlUrl } from "./control-target.ts";

const TIMEOUT = 10_000;

const AnswerSchema = v.object({
  onboarding_status: v.nullish(v.string()),
  parameters_encrypted: v.nullish(v.string()),
});

export interface OnboardingParts {
  readonly account: Account;
  readonly fetch: Fetch;
  readonly agents: Pick<AgentRegistry, "get">;
  readonly settings: AgentSettings;
  readonly parameters: Parameters;
  readonly log: Logger;
}

/** The caller of settings changes here, for the audit log. */
const CONTROL_SYSTEM: Caller = { kind: "system", says: "the control system" };

/** Fetches an agent's settings from the control system, if it offers them. Parameters stay encrypted. */
export async function fetchOnboarding(slug: string, parts: OnboardingParts): Promise<void> {
  const { account, fetch, agents, settings, parameters, log } = parts;
  try {
    const response = await fetch(`${controlUrl(account)}/agents/by-slug/${slug}`, {
      headers: accountHeaders(account),
      signal: AbortSignal.timeout(TIMEOUT),
      redirect: "manual",
    });
    if (!response.ok) {
      await response.body?.cancel();
      log.debug("the control system has no settings for this agent", {
        agent: slug,
        status: response.status,
      });
      return;
    }
    const answer = v.safeParse(AnswerSchema, await response.json());
    if (!answer.success) return log.warn("the control system's settings cannot be read", { agent: slug });
    const { onboarding_status = null, parameters_encrypted = null } = answer.output;
    if (onboarding_status === null && !parameters_encrypted) return;
    if (parameters_encrypted) {
      parameters.assertAccepted(parameters_encrypted);
      parameters.open(parameters_encrypted, agents.get(slug));
    }
    await settings.change(slug, { onboarding_status, parameters_encrypted }, CONTROL_SYSTEM);
  } catch (error) {
    log.warn("the control system's settings for this agent could not be applied", { agent: slug, error });
  }
}
