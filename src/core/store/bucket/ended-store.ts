import { TransactionalStore } from "../engine/transactional-store.ts";
import type { Store } from "../store.ts";

type Options = ConstructorParameters<typeof TransactionalStore>[0];

interface Ends {
  readonly showMarks: NonNullable<Store["showMarks"]>;
  readonly closing?: () => void;
  readonly closed: () => Promise<void>;
}

/** A store that others can take over: it shows whose it is, and does something before and after it is closed, once. */
export class EndedStore extends TransactionalStore {
  readonly showMarks: NonNullable<Store["showMarks"]>;
  readonly #closing: (() => void) | undefined;
  readonly #closed: () => Promise<void>;
  #done: Promise<void> | undefined;

  constructor({ showMarks, closing, closed, ...options }: Options & Ends) {
    super(options);
    this.showMarks = showMarks;
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
