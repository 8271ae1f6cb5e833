import childProcess from "node:child_process";
import crypto from "node:crypto";
import diagnostics from "node:diagnostics_channel";
import fs from "node:fs";
import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { isOwnPlace, placesIn } from "../core/base/stack-places.ts";
import { PLACE } from "./watched-agent.ts";

/** Functions that change something outside of the process. */
const WRITES = /^(write|append|mkdir|rm|unlink|rename|copyFile|cp|truncate|symlink|link|createWriteStream)/;
const PROCESSES = ["spawn", "spawnSync", "exec", "execSync", "execFile", "execFileSync", "fork"];
const REQUESTS = ["undici:request:create", "http.client.request.start"];

type Functions = Record<string, (...args: never[]) => unknown>;

/** What an agent's handler did outside of its steps, with the place in its code. */
export interface Noted {
  /** What happens again after each crash. */
  readonly effects: ReadonlySet<string>;
  /** Values that differ after a crash: harmful only if the agent's work depends on them. */
  readonly sources: ReadonlySet<string>;
}

/**
 * Watches what handlers do outside of their steps, until `stop` is called: files that they write, processes
 * and requests that they start, and where they read the time or random numbers. In a handler the time is that
 * of its run.
 */
export class EffectWatch implements Noted {
  readonly effects = new Set<string>();
  readonly sources = new Set<string>();
  readonly #restore: (() => void)[] = [];

  constructor() {
    const effect = (what: string) => this.effects.add(what);
    const source = (what: string) => this.sources.add(what);
    for (const [module, prefix] of [
      [fs, "fs"],
      [fsPromises, "fs"],
    ] as const) {
      for (const name of Object.keys(module).filter((name) => WRITES.test(name)))
        this.#watch(module as unknown as Functions, name, `${prefix}.${name}`, effect);
    }
    for (const name of PROCESSES)
      this.#watch(childProcess as unknown as Functions, name, `child_process.${name}`, effect);
    this.#watch(Math as unknown as Functions, "random", "Math.random", source);
    this.#watch(crypto as unknown as Functions, "randomUUID", "randomUUID", source);
    this.#watch(crypto as unknown as Functions, "randomBytes", "randomBytes", source);
    this.#watch(globalThis.crypto as unknown as Functions, "randomUUID", "crypto.randomUUID", source);
    this.#watchDate(source);
    for (const channel of REQUESTS) {
      const told = () => note("a request", effect);
      diagnostics.subscribe(channel, told);
      this.#restore.push(() => diagnostics.unsubscribe(channel, told));
    }
    syncBuiltinESMExports();
  }

  stop(): void {
    for (const restore of this.#restore.reverse()) restore();
    syncBuiltinESMExports();
  }

  #watch(owner: Functions, name: string, label: string, noted: (what: string) => void): void {
    const original = owner[name];
    if (typeof original !== "function") return;
    const own = Object.getOwnPropertyDescriptor(owner, name);
    owner[name] = function (this: unknown, ...args: never[]) {
      note(label, noted);
      return original.apply(this, args);
    };
    this.#restore.push(() => {
      if (own) Object.defineProperty(owner, name, own);
      else delete owner[name];
    });
  }

  #watchDate(noted: (what: string) => void): void {
    const original = globalThis.Date;
    const now = (label: string): number | undefined => {
      const place = PLACE.getStore();
      if (!place) return undefined;
      note(label, noted);
      return place.now().getTime();
    };
    globalThis.Date = new Proxy(original, {
      construct(target, args: unknown[], newTarget) {
        const at = args.length === 0 ? now("new Date()") : undefined;
        return Reflect.construct(target, at === undefined ? args : [at], newTarget) as Date;
      },
      get(target, name) {
        if (name === "now") return () => now("Date.now") ?? original.now();
        return Reflect.get(target, name) as unknown;
      },
    });
    this.#restore.push(() => {
      globalThis.Date = original;
    });
  }
}

/** Records effects of the handler itself, not of its steps, nor of the service. */
function note(what: string, noted: (what: string) => void): void {
  const place = PLACE.getStore();
  if (!place || place.isInStep) return;
  const caller = callerOf(new Error().stack ?? "");
  if (caller !== undefined) noted(`${what} at ${caller}`);
}

/** The position in the agent's code, or in what it uses; `undefined` if the service called. */
function callerOf(stack: string): string | undefined {
  const first = placesIn(stack).find((place) => !/effects\.[jt]s/.test(place));
  return first === undefined || isOwnPlace(first) ? undefined : first;
}
