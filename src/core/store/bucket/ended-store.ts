import { TransactionalStore } from "../engine/transactional-store.ts";

type Options = ConstructorParameters<typeof TransactionalStore>[0];

interface Ends {
  readonly closing?: () => void;
  readonly closed: () => Promise<void>;
}

/** A store that does something before and after it is closed, once. */
export class EndedStore extends TransactionalStore {
  readonly #closing: (() => void) | undefined;
  readonly #closed: () => Promise<void>;
  #done: Promise<void> | undefined;

  constructor({ closing, closed, ...options }: Options & Ends) {
    super(options);
    this.#closing = closing;
    this.#closed = closed;
  }

  override close(): Promise<void> {
    this.#done ??= this.#close();
    return this.#done;
  }

  async #close(): Promise<void> {
    this.#closing?.();
    await super.close();
    await this.#closed();
  }
}
