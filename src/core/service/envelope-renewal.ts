import { setImmediate } from "node:timers/promises";
import type { SigningKeys } from "../access/signing-keys.ts";
import type { AgentSettings } from "../agents/agent-settings.ts";
import type { Parameters } from "../agents/parameters.ts";
import type { AuditLog } from "../audit/audit-log.ts";
import { SYSTEM } from "../audit/caller.ts";
import type { Logger } from "../base/log.ts";
import type { StartTimer } from "../base/timer.ts";
import { renewParameters } from "../entities/change-job.ts";
import type { Ledger } from "../entities/ledger.ts";
import { findLiving } from "../runs/cluster/membership.ts";
import type { Store } from "../store/store.ts";

/** Milliseconds from one search to the next: clients may still have the former public key. */
const PAUSE = 10 * 60_000;
/** Milliseconds between two questions whether all instances have the present key. */
const WAIT = 5000;
/** By how many milliseconds the clocks of those who create jobs may differ. */
const SKEW = 60_000;

export interface EnvelopeRenewalParts {
  readonly store: Store;
  readonly settings: AgentSettings;
  readonly signing: SigningKeys;
  readonly ledger: Ledger;
  readonly parameters: Parameters;
  readonly audit: AuditLog;
  readonly log: Logger;
  readonly clock: () => Date;
  readonly startTimer: StartTimer;
  /** Has the store know the service by its present key. */
  readonly noteKey: () => Promise<unknown>;
}

/**
 * Encrypts parameters that are stored for former RSA keys again, for the present one: all, and later those that have come
 * since. Each is replaced by itself and only if it is unchanged, so that a crash loses nothing, and several instances may do
 * it at the same time.
 */
export class EnvelopeRenewal {
  readonly #parts: EnvelopeRenewalParts;
  #stopTimer: () => void = () => {};
  #running: Promise<unknown> | undefined;
  #isClosed = false;
  /** When the last search began, milliseconds since 1970. */
  #searched: number | undefined;
  #hasWaited = false;

  constructor(parts: EnvelopeRenewalParts) {
    this.#parts = parts;
  }

  start(): void {
    if (this.#isClosed || !this.#parts.parameters.hasFormerKeys) return;
    const { log, startTimer } = this.#parts;
    const turn = (): void => {
      let pause = PAUSE;
      this.#running = this.run()
        .then((isDone) => {
          if (!isDone) pause = WAIT;
        })
        .catch((error: unknown) => log.warn("parameters could not be encrypted again yet", { error }))
        .finally(() => {
          if (!this.#isClosed) this.#stopTimer = startTimer(pause, turn, "schedule");
        });
    };
    turn();
  }

  /** Stops after the envelope that is being replaced. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopTimer();
    await this.#running;
  }

  /** Replaces what is to be replaced now; resolves with `false` where it must wait for other instances. */
  async run(): Promise<boolean> {
    const { settings, signing, parameters, audit, log, clock } = this.#parts;
    if (await this.#isUnknownToOthers()) return false;
    const began = clock().getTime();
    let unreadable = 0;
    const renew = (encrypted: string): string | undefined => {
      const renewal = parameters.renew(encrypted);
      if (renewal.of === "neither") unreadable++;
      return renewal.of === "former" ? renewal.envelope : undefined;
    };
    await signing.renew();
    const agents = await settings.renewParameters(renew);
    const jobs = await this.#renewJobs(renew);
    if (this.#isClosed) return true;
    // An instance that started meanwhile, with this key as a former one, has it know the other one.
    await this.#parts.noteKey();
    const isFirst = this.#searched === undefined;
    this.#searched = began;
    const [key] = parameters.keyNames();
    if (jobs + agents > 0)
      await audit.record({ by: SYSTEM, action: "rsa_key.renewed", after: { key, jobs, agents } });
    if (unreadable > 0)
      log.error(
        "stored parameters cannot be read with the present RSA key, nor with a former one: add the key that they were encrypted for to SERVICE_PREVIOUS_RSA_PRIVATE_KEY",
        { envelopes: unreadable },
      );
    else if (isFirst || jobs + agents > 0)
      log.info(
        "all stored parameters are encrypted for the present RSA key: once clients use its public key, SERVICE_PREVIOUS_RSA_PRIVATE_KEY, or the keys with lower numbers, can be removed",
        { jobs, agents },
      );
    return true;
  }

  async #renewJobs(renew: (encrypted: string) => string | undefined): Promise<number> {
    const { ledger, store } = this.#parts;
    let count = 0;
    // Deleted ones first: one that is restored meanwhile is found among the others, one that is deleted by the next search.
    for (const table of ["DeletedJob", "Job"] as const) {
      for (const id of await this.#idsIn(table)) {
        if (this.#isClosed) return count;
        const before = (await store.table(table).peek(id))?.encrypted_agent_parameters;
        if (!before) continue;
        const after = renew(before);
        // Each takes milliseconds of the processor: requests are answered in between.
        await setImmediate();
        if (after === undefined) continue;
        if (await ledger.write((unit) => renewParameters(unit, { table, id }, { before, after }))) count++;
      }
    }
    return count;
  }

  /** The jobs that may have come since the last search, those that were deleted meanwhile too. */
  #idsIn(table: "Job" | "DeletedJob"): Promise<string[]> {
    const since = this.#searched;
    const time = table === "Job" ? "created_at" : "deleted_at";
    const where = since === undefined ? {} : { [time]: { gte: since - SKEW } };
    return this.#parts.store.table(table).ids({ where, sort: "id", limit: Number.POSITIVE_INFINITY });
  }

  /** Whether an instance lives that cannot read what is encrypted for the present key. */
  async #isUnknownToOthers(): Promise<boolean> {
    const { store, parameters, log } = this.#parts;
    if (!store.isShared) return false;
    const [key] = parameters.keyNames();
    const { instances } = await findLiving(store);
    const without = instances.filter(({ keys }) => !keys?.includes(key!));
    if (without.length > 0 && !this.#hasWaited) {
      this.#hasWaited = true;
      log.info("parameters are encrypted again once all instances have the present RSA key", {
        instances: without.length,
      });
    }
    return without.length > 0;
  }
}
