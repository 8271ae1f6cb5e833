import type { MaybePromise } from "../maybe-promise.ts";
import type { Store } from "../store/store.ts";
import { StoreConflictError } from "../store/store.ts";

/** What a control system has told an agent to keep; parameters stay encrypted. */
export interface AgentSetting {
  /** The agent's slug. */
  readonly id: string;
  readonly onboarding_status: string | null;
  readonly parameters_encrypted: string | null;
  readonly updated_at: string;
}

type SettingPatch = Partial<Pick<AgentSetting, "onboarding_status" | "parameters_encrypted">>;

/** The settings of agents, by slug. */
export class AgentSettings {
  readonly #store: Store;
  readonly #clock: () => Date;

  constructor(store: Store, clock: () => Date) {
    this.#store = store;
    this.#clock = clock;
  }

  find(slug: string): Promise<AgentSetting | undefined> {
    return this.#store.table("AgentSetting").get(slug);
  }

  /** What `find` gives, for those who only look. */
  peek(slug: string): MaybePromise<AgentSetting | undefined> {
    return this.#store.table("AgentSetting").peek(slug);
  }

  /** Changes what `patch` holds; what is `null` or left out stays as it is. */
  async change(slug: string, patch: SettingPatch): Promise<AgentSetting> {
    const table = this.#store.table("AgentSetting");
    const updated_at = this.#clock().toISOString();
    const empty = { id: slug, onboarding_status: null, parameters_encrypted: null, updated_at };
    await table.insert(empty).catch((error: unknown) => {
      if (!(error instanceof StoreConflictError)) throw error;
    });
    return table.change(slug, (current) => ({
      ...current,
      onboarding_status: patch.onboarding_status ?? current.onboarding_status,
      parameters_encrypted: patch.parameters_encrypted ?? current.parameters_encrypted,
      updated_at,
    }));
  }
}
