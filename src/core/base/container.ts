const SHARED = "agent-control-service ";

/** Names a part of the service, and its type. */
export type Token<T> = symbol & { readonly "~part"?: T };

/** Creates a token; `name` is shown in errors. */
export function createToken<T>(name: string): Token<T> {
  return Symbol(name);
}

/** A token of the service itself: the same in every copy of this package, such as a global `svc` and a project's own. */
export function createSharedToken<T>(name: string): Token<T> {
  return Symbol.for(SHARED + name);
}

/** Display name of a token. */
export function tokenName(token: Token<unknown>): string {
  return (token.description ?? "").replace(SHARED, "");
}

/** A part that nobody has provided. */
export class MissingPartError extends Error {
  override readonly name = "MissingPartError";

  constructor(part: string) {
    super(
      `There is no part "${part}" in this service: add the plugin that provides it to createServer({ plugins })`,
    );
  }
}

type Close = () => void | Promise<void>;

/**
 * The parts of one server: created once on first use, and closed in reverse order. Two servers share nothing;
 * classes do not depend on the container. Parts are wired by hand in `service.ts`, where a reader sees what needs what.
 */
export class Container {
  readonly #parent: Container | undefined;
  readonly #parts = new Map<symbol, () => unknown>();
  readonly #closers: Close[] = [];

  constructor(parent?: Container) {
    this.#parent = parent;
  }

  /** Registers an existing part. */
  value<T>(token: Token<T>, value: T): void {
    this.#parts.set(token, () => value);
  }

  /** Registers a part that is created on first use. */
  factory<T>(token: Token<T>, make: (scope: Container) => T): void {
    this.#parts.set(token, () => {
      this.#parts.set(token, () => {
        throw new Error(
          `The part "${tokenName(token)}" needs itself: see who asks for it while it is created`,
        );
      });
      try {
        this.value(token, make(this));
      } catch (error) {
        this.factory(token, make);
        throw error;
      }
      return this.get(token);
    });
  }

  /** Registers a class by the tokens of its constructor's arguments. */
  class<T, A extends unknown[]>(
    token: Token<T>,
    Part: new (...parts: A) => T,
    dependencies: { readonly [I in keyof A]: Token<A[I]> },
  ): void {
    this.factory(token, (scope) => new Part(...(dependencies.map((one) => scope.get(one)) as A)));
  }

  /** The part of a token; throws if there is none. */
  get<T>(token: Token<T>): T {
    for (let scope: Container | undefined = this; scope; scope = scope.#parent) {
      const part = scope.#parts.get(token);
      if (part) return part() as T;
    }
    throw new MissingPartError(tokenName(token));
  }

  has<T>(token: Token<T>): boolean {
    return this.#parts.has(token) || this.#parent?.has(token) === true;
  }

  /** A container that sees this one's parts; its own parts are not visible here. */
  child(): Container {
    const child = new Container(this);
    this.onClose(() => child.close());
    return child;
  }

  onClose(close: Close): void {
    this.#closers.push(close);
  }

  /** Closes in reverse order; continues when one fails and rejects with the first failure at the end. */
  async close(): Promise<void> {
    const failures: unknown[] = [];
    for (let close = this.#closers.pop(); close; close = this.#closers.pop()) {
      try {
        await close();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
