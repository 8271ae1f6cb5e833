interface Owner {
  readonly signal: AbortSignal;
}

/**
 * What code of an agent is given, with a `signal` that is made when it is read: most code never does. All share one getter,
 * as an object that has a getter of its own is slow to make, and large.
 */
class WithSignal {
  static readonly signal: PropertyDescriptor = {
    configurable: true,
    enumerable: true,
    get(this: WithSignal) {
      return this.#owner.signal;
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
