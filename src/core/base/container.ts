import "reflect-metadata/lite";
import { type DependencyContainer, instanceCachingFactory, container as root } from "tsyringe";

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
 * classes do not depend on the container.
 *
 * tsyringe does the lookup: which factory belongs to a token, made once per scope, with scopes inside scopes. Its
 * decorators and its global container are not used: parts are wired by hand in `service.ts`, where a reader sees what
 * needs what, and two services in one process stay apart. A Map could replace it here; the order of closing, typed
 * tokens and the error for a missing part are this class's own. It needs `reflect-metadata`, which extends the global
 * `Reflect`, so nothing else imports the two.
 */
export class Container {
  readonly #scope: DependencyContainer;
  readonly #closers: Close[] = [];

  constructor(parent?: Container) {
    this.#scope = (parent ? parent.#scope : root).createChildContainer();
  }

  /** Registers an existing part. */
  value<T>(token: Token<T>, value: T): void {
    this.#scope.register(token, { useValue: value });
  }

  /** Registers a part that is created on first use. */
  factory<T>(token: Token<T>, make: (scope: Container) => T): void {
    this.#scope.register(token, { useFactory: instanceCachingFactory(() => make(this)) });
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
    if (!this.has(token)) throw new MissingPartError(tokenName(token));
    return this.#scope.resolve<T>(token);
  }

  has<T>(token: Token<T>): boolean {
    return this.#scope.isRegistered(token, true);
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
