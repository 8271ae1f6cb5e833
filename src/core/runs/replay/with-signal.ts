import type { Logger } from "../../base/log.ts";

interface Owner {
  readonly signal: AbortSignal;
}

interface HandlerOwner extends Owner {
  readonly handlerLog: Logger;
}

/**
 * What code of an agent is given, with a `signal`, and a handler's `log`, that are made when they are read: most code never
 * does. All share the getters, as an object that has getters of its own is slow to make, and large.
 */
class WithSignal {
  static readonly signal: PropertyDescriptor = {
    configurable: true,
    enumerable: true,
    get(this: WithSignal) {
      return this.#owner.signal;
    },
  };
  static readonly context: PropertyDescriptorMap = {
    signal: WithSignal.signal,
    log: {
      configurable: true,
      enumerable: true,
      get(this: WithSignal) {
        return (this.#owner as HandlerOwner).handlerLog;
      },
    },
  };
  readonly #owner: Owner;

  constructor(owner: Owner) {
    this.#owner = owner;
  }
}

/** The values, and the signal of their owner. */
export function withSignal<T extends object>(owner: Owner, values: T): T & Owner {
  const given = Object.assign(new WithSignal(owner), values);
  return Object.defineProperty(given, "signal", WithSignal.signal) as typeof given & Owner;
}

/** The values, with the signal and the log of a handler. */
export function withContext<T extends object>(
  owner: HandlerOwner,
  values: T,
): T & Owner & { readonly log: Logger } {
  const given = Object.assign(new WithSignal(owner), values);
  return Object.defineProperties(given, WithSignal.context) as typeof given &
    Owner & { readonly log: Logger };
}
