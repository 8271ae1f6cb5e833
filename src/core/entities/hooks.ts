import type { LogRecord } from "../base/log.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { ServerInfo } from "../models/server-info.ts";
import type { Telemetry } from "../models/telemetry.ts";
import type { Change } from "./change.ts";

type ChangeOf<K extends Change["kind"]> = Extract<Change, { kind: K }>;

/** What observers can be told, by name. Plugins add their own by declaration merging. */
export interface ServiceHooks {
  "service:ready": { url: string | undefined; info: ServerInfo };
  "service:closing": { reason: string | undefined };
  "job:created": ChangeOf<"job:created">;
  "job:changed": ChangeOf<"job:changed">;
  "job:finished": ChangeOf<"job:finished">;
  "job:deleted": ChangeOf<"job:deleted">;
  "case:opened": ChangeOf<"case:opened">;
  "case:changed": ChangeOf<"case:changed">;
  "case:deleted": ChangeOf<"case:deleted">;
  /** A line of a job's run log, after it is stored. */
  "run:entry": { job_id: string; seq: number; entry: RunEntry };
  telemetry: { telemetry: Telemetry; job_id?: string };
  log: LogRecord;
}

export type HookName = keyof ServiceHooks & string;
type Observer<T> = (payload: T) => void | Promise<void>;

/**
 * Tells observers, in the order in which they came. An observer answers nothing; one that throws is
 * reported and skipped.
 */
export class Hooks<H extends object = ServiceHooks> {
  readonly #observers = new Map<keyof H, Set<Observer<never>>>();
  readonly #onError: (name: string, error: unknown) => void;

  constructor(onError: (name: string, error: unknown) => void) {
    this.#onError = onError;
  }

  /** Adds an observer; the result takes it away again. */
  on<K extends keyof H & string>(name: K, observer: Observer<H[K]>): () => void {
    const observers = this.#observers.get(name) ?? new Set();
    this.#observers.set(name, observers.add(observer as Observer<never>));
    return () => void observers.delete(observer as Observer<never>);
  }

  /** Tells all observers now; does not wait for what they do afterwards. */
  emit<K extends keyof H & string>(name: K, payload: H[K]): void {
    for (const observer of this.#observers.get(name) ?? []) {
      try {
        const pending = (observer as Observer<H[K]>)(payload);
        if (pending instanceof Promise) pending.catch((error: unknown) => this.#onError(name, error));
      } catch (error) {
        this.#onError(name, error);
      }
    }
  }

  /** Whether anyone listens: spares the making of a payload that nobody wants. */
  has<K extends keyof H & string>(name: K): boolean {
    return (this.#observers.get(name)?.size ?? 0) > 0;
  }
}
