import type { LogRecord } from "../base/log.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { ServerInfo } from "../models/server-info.ts";
import type { Telemetry } from "../models/telemetry.ts";
import type { Change, Touched } from "./change.ts";

/** The changes of one kind. */
export type ChangeOf<K extends Change["kind"]> = Extract<Change, { kind: K }>;

/** The service's hooks, by name. Only the service can emit them. */
export interface CoreHooks {
  "service:ready": { url: string | undefined; info: ServerInfo };
  "service:closing": { reason: string | undefined };
  "job:created": ChangeOf<"job:created">;
  "job:changed": ChangeOf<"job:changed">;
  "job:finished": ChangeOf<"job:finished">;
  "job:deleted": ChangeOf<"job:deleted">;
  "job:restored": ChangeOf<"job:restored">;
  "job:erased": ChangeOf<"job:erased">;
  "budget:reached": ChangeOf<"budget:reached">;
  "case:opened": ChangeOf<"case:opened">;
  "case:changed": ChangeOf<"case:changed">;
  "case:deleted": ChangeOf<"case:deleted">;
  "case:restored": ChangeOf<"case:restored">;
  /** A line of a job's run log, after it is stored. */
  "run:entry": { job_id: string; seq: number; entry: RunEntry };
  /**
   * Jobs and cases that another instance may have changed, where several share a store: read them again. `all` comes
   * every two seconds, too.
   */
  "jobs:touched": Touched;
  telemetry: { telemetry: Telemetry; job_id?: string };
  log: LogRecord;
}

/** Every hook, by name. Plugins add theirs by declaration merging, and name them in their `hooks`. */
export interface ServiceHooks extends CoreHooks {}

export type HookName = keyof ServiceHooks & string;
/** Hooks that plugins have added. */
export type PluginHookName = Exclude<HookName, keyof CoreHooks>;
export type Observer<T> = (payload: T) => MaybePromise<void>;

const CORE_HOOKS: Readonly<Record<keyof CoreHooks, true>> = {
  "service:ready": true,
  "service:closing": true,
  "job:created": true,
  "job:changed": true,
  "job:finished": true,
  "job:deleted": true,
  "job:restored": true,
  "job:erased": true,
  "budget:reached": true,
  "case:opened": true,
  "case:changed": true,
  "case:deleted": true,
  "case:restored": true,
  "run:entry": true,
  "jobs:touched": true,
  telemetry: true,
  log: true,
};

/** Whether the service itself emits a hook. */
export function isCoreHook(name: string): name is keyof CoreHooks {
  return Object.hasOwn(CORE_HOOKS, name);
}

/** Adds observers. */
export interface HookListener<H extends object = ServiceHooks> {
  /** Adds an observer; the result removes it. */
  on<K extends keyof H & string>(name: K, observer: Observer<H[K]>): () => void;
}

/**
 * Notifies observers, in the order in which they were added. The result of an observer is ignored; one that
 * throws is reported and skipped.
 */
export class Hooks<H extends object = ServiceHooks> implements HookListener<H> {
  readonly #observers = new Map<keyof H, Set<Observer<never>>>();
  readonly #onError: (name: string, error: unknown) => void;

  constructor(onError: (name: string, error: unknown) => void) {
    this.#onError = onError;
  }

  on<K extends keyof H & string>(name: K, observer: Observer<H[K]>): () => void {
    const observers = this.#observers.get(name) ?? new Set();
    this.#observers.set(name, observers.add(observer as Observer<never>));
    return () => void observers.delete(observer as Observer<never>);
  }

  /** Notifies all observers now; does not wait for their asynchronous work. */
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
}

/** The part of hooks that only adds observers. */
export function toListener<H extends object>(hooks: Hooks<H>): HookListener<H> {
  return { on: (name, observer) => hooks.on(name, observer) };
}
