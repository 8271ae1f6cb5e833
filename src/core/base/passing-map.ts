/**
 * A map of what comes and goes with each job or request. V8 gives a `Map` another table whenever it grows, shrinks, or has
 * many removed entries; a former one that has become old keeps all that it had, and the tables after it, until the next
 * full collection, and each small collection before that copies them again. Here the tables have only boxes, which are
 * emptied.
 */
export class PassingMap<K, V> {
  readonly #boxes = new Map<K, { value: V | undefined }>();

  get size(): number {
    return this.#boxes.size;
  }

  get(key: K): V | undefined {
    return this.#boxes.get(key)?.value;
  }

  has(key: K): boolean {
    return this.#boxes.has(key);
  }

  set(key: K, value: V): this {
    const known = this.#boxes.get(key);
    if (known) known.value = value;
    else this.#boxes.set(key, { value });
    return this;
  }

  delete(key: K): boolean {
    const known = this.#boxes.get(key);
    return known !== undefined && this.deleteIf(key, known.value as V);
  }

  /** Removes an entry that still has this value. */
  deleteIf(key: K, value: V): boolean {
    const known = this.#boxes.get(key);
    if (known === undefined || known.value !== value) return false;
    known.value = undefined;
    return this.#boxes.delete(key);
  }

  clear(): void {
    for (const box of this.#boxes.values()) box.value = undefined;
    this.#boxes.clear();
  }

  keys(): IterableIterator<K> {
    return this.#boxes.keys();
  }

  *values(): IterableIterator<V> {
    for (const { value } of this.#boxes.values()) yield value as V;
  }

  *[Symbol.iterator](): IterableIterator<[K, V]> {
    for (const [key, { value }] of this.#boxes) yield [key, value as V];
  }
}
