import type { AuditLog } from "../audit/audit-log.ts";
import { type Actor, nameOf } from "../audit/caller.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { Ledger } from "../entities/ledger.ts";
import type { AgentSetting } from "../models/own-rows.ts";
import type { Joins, Store } from "../store/store.ts";

export type SettingPatch = Partial<Pick<AgentSetting, "onboarding_status" | "parameters_encrypted">>;

/** In place of a slug: a pause of all agents that ends by itself. */
const ALL = "*";

/** Agents that start no new jobs. */
export interface PausedAgents {
  readonly slugs: ReadonlySet<string>;
  /** Until when no agent does, ISO 8601. */
  readonly drainedUntil: string | undefined;
}

/** The settings of agents, by slug. */
export class AgentSettings {
  readonly #store: Store;
  readonly #ledger: Ledger;
  readonly #audit: AuditLog;

  constructor(store: Store, ledger: Ledger, audit: AuditLog) {
    this.#store = store;
    this.#ledger = ledger;
    this.#audit = audit;
  }

  find(slug: string): Promise<AgentSetting | undefined> {
    return this.#store.table("AgentSetting").get(slug);
  }

  /** The result of `find`, for read-only use. */
  peek(slug: string): MaybePromise<AgentSetting | undefined> {
    return this.#store.table("AgentSetting").peek(slug);
  }

  /** Changes the keys of `patch`; keys that are `null` or omitted stay unchanged. */
  change(slug: string, patch: SettingPatch, by: Actor): Promise<AgentSetting> {
    return this.#write(slug, by, (before) => ({
      onboarding_status: patch.onboarding_status ?? before?.onboarding_status ?? null,
      parameters_encrypted: patch.parameters_encrypted ?? before?.parameters_encrypted ?? null,
    }));
  }

  /** Replaces the stored parameters by what `make` makes of them; it may be called more than once. */
  changeParameters(
    slug: string,
    make: (encrypted: string | null) => string | null,
    by: Actor,
  ): Promise<AgentSetting> {
    return this.#write(slug, by, (before) => ({
      onboarding_status: before?.onboarding_status ?? null,
      parameters_encrypted: make(before?.parameters_encrypted ?? null),
    }));
  }

  /** Replaces what `renew` replaces of the stored parameters, which stay the same; resolves with how many it has replaced. */
  async renewParameters(renew: (encrypted: string) => string | undefined): Promise<number> {
    const { items } = await this.#store.table("AgentSetting").list({ limit: Number.POSITIVE_INFINITY });
    let count = 0;
    for (const { id, parameters_encrypted: before } of items) {
      const after = before === null ? undefined : renew(before);
      if (after === undefined) continue;
      count += await this.#ledger.write(async ({ tx }) => {
        if ((await tx.get("AgentSetting", id))?.parameters_encrypted !== before) return 0;
        await tx.change("AgentSetting", id, (current) => ({ ...current, parameters_encrypted: after }));
        return 1;
      });
    }
    return count;
  }

  /** The agents that are paused at this time. */
  async paused(now: Date, joins?: Joins): Promise<PausedAgents> {
    const query = { limit: Number.POSITIVE_INFINITY, ...(joins && { joins }) };
    const { items } = await this.#store.table("AgentSetting").list(query);
    const slugs = new Set(items.flatMap(({ id, paused }) => (paused && id !== ALL ? [id] : [])));
    const until = items.find(({ id }) => id === ALL)?.paused?.until;
    return { slugs, drainedUntil: until !== undefined && until > now.toISOString() ? until : undefined };
  }

  /** Lets no agent start new jobs for so many milliseconds, from now on; 0 ends that. Resolves with when it ends. */
  drain(milliseconds: number, by: Actor): Promise<string | undefined> {
    return this.#ledger.write(async (unit) => {
      const before = await unit.tx.get("AgentSetting", ALL);
      const now = new Date(unit.now);
      const was = before?.paused?.until !== undefined && before.paused.until > unit.now;
      const until = milliseconds > 0 ? new Date(now.getTime() + milliseconds).toISOString() : undefined;
      if (!was && until === undefined) return undefined;
      const paused = until && { at: before?.paused?.at ?? unit.now, by: nameOf(by), until };
      const none = { id: ALL, onboarding_status: null, parameters_encrypted: null };
      const next: AgentSetting = { ...(before ?? none), paused: paused || undefined, updated_at: unit.now };
      if (before) await unit.tx.change("AgentSetting", ALL, () => next);
      else await unit.tx.insert("AgentSetting", next);
      // Renewed every few seconds: the log has its beginning and its end.
      if (was !== (until !== undefined)) {
        const action = until ? "service.drain" : "service.resume";
        await this.#audit.write(unit, { by, action, target: { kind: "service", id: "agents" } });
      }
      return until;
    });
  }

  /** Pauses an agent, or resumes it. */
  setPaused(slug: string, isPaused: boolean, by: Actor): Promise<AgentSetting> {
    return this.#ledger.write(async (unit) => {
      const before = await unit.tx.get("AgentSetting", slug);
      const none = { id: slug, onboarding_status: null, parameters_encrypted: null };
      if (Boolean(before?.paused) === isPaused) return before ?? { ...none, updated_at: unit.now };
      const paused = isPaused ? { at: unit.now, by: nameOf(by) } : undefined;
      const next = { ...(before ?? none), paused, updated_at: unit.now };
      if (before) await unit.tx.change("AgentSetting", slug, () => next);
      else await unit.tx.insert("AgentSetting", next);
      const action = isPaused ? "agent.pause" : "agent.resume";
      await this.#audit.write(unit, { by, action, target: { kind: "agent", id: slug } });
      return next;
    });
  }

  #write(
    slug: string,
    by: Actor,
    make: (
      before: AgentSetting | undefined,
    ) => Pick<AgentSetting, "onboarding_status" | "parameters_encrypted">,
  ): Promise<AgentSetting> {
    return this.#ledger.write(async (unit) => {
      const before = await unit.tx.get("AgentSetting", slug);
      const next: AgentSetting = { ...before, id: slug, ...make(before), updated_at: unit.now };
      if (before) await unit.tx.change("AgentSetting", slug, () => next);
      else await unit.tx.insert("AgentSetting", next);
      const [was, is] = [describe(before), describe(next)];
      const isReplaced = (before?.parameters_encrypted ?? null) !== next.parameters_encrypted;
      if (isReplaced || was.onboarding_status !== is.onboarding_status) {
        const after = isReplaced && was.parameters === is.parameters ? { ...is, parameters: "replaced" } : is;
        const target = { kind: "agent", id: slug };
        await this.#audit.write(unit, { by, action: "agent.parameters", target, before: was, after });
      }
      return next;
    });
  }
}

/** What the audit log may record about settings. */
function describe(setting: AgentSetting | undefined) {
  return {
    onboarding_status: setting?.onboarding_status ?? null,
    parameters: setting?.parameters_encrypted ? "set" : "none",
  };
}
