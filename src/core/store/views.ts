import type { Entity } from "./store.ts";

/** Entities of a table that are kept parsed. */
const KEPT = 500;
/** Longer ones are parsed for each reader: they would fill the memory. */
const LONGEST = 16 * 1024;

/** Entities that readers share: parsed once for each version, and frozen. */
export class Views {
  /** In the order of their first use. */
  readonly #known = new Map<string, { readonly text: string; readonly entity: Entity }>();

  /** The entity that a text holds; the text itself tells whether the one at hand is still right. */
  of(id: string, text: string): Entity {
    const known = this.#known.get(id);
    if (known?.text === text) return known.entity;
    const entity = freeze(JSON.parse(text) as Entity);
    this.#known.delete(id);
    if (text.length > LONGEST) return entity;
    this.#known.set(id, { text, entity });
    if (this.#known.size > KEPT) this.#dropOldest();
    return entity;
  }

  #dropOldest(): void {
    for (const id of this.#known.keys()) {
      this.#known.delete(id);
      return;
    }
  }
}

function freeze<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  for (const key in value) freeze(value[key]);
  return Object.freeze(value);
}
