import { freezeFields, toJson } from "../json-value.ts";
import type { Entity } from "../store.ts";
import { PartedJson } from "./parted-json.ts";
import type { IndexRecord } from "./table-index.ts";

/** JSON longer than this is not also kept parsed. */
const LONG = 1024 * 1024;

/**
 * One version of an entity. If it is read or changed again, its parsed value is kept, so that callers get
 * copies without parsing, and the next version costs only its differences.
 */
export class Body {
  /** The JSON; missing if the parts have it. */
  readonly #text: string | undefined;
  #parted: PartedJson | undefined;
  #view: object | undefined;
  /**
   * Whether it was requested before, or its predecessor was changed: then keeping it parsed is worthwhile.
   */
  #isHot: boolean;
  /** Number of characters of the JSON. */
  readonly length: number;
  /** Its index values, if it was staged and not read. */
  record: IndexRecord | undefined;

  private constructor(content: { text: string } | { parted: PartedJson }, isHot: boolean) {
    this.#isHot = isHot;
    if ("text" in content) this.#text = content.text;
    else this.#parted = content.parted;
    this.length = ("text" in content ? content.text : content.parted).length;
  }

  /** A stored entity from its JSON. */
  static from(text: string): Body {
    return new Body({ text }, false);
  }

  /** A new entity. Throws if it cannot be stored; `what` names it in the error. */
  static of(entity: Entity, what: string): Body {
    return new Body({ text: toJson(entity, what) }, false);
  }

  get text(): string {
    return this.#text ?? this.texts.join("");
  }

  /** The JSON as strings to be written one after another: joining them costs a copy. */
  get texts(): readonly string[] {
    return this.#text === undefined ? this.#parted!.texts : [this.#text];
  }

  /** The entity, as a copy that the caller owns. */
  copy<T>(): T {
    const parted = this.#part();
    try {
      if (parted !== undefined) return parted.copy() as T;
    } catch {
      // Nested more deeply than the stack allows; parsing needs no stack.
    }
    return JSON.parse(this.text) as T;
  }

  /** The entity, whose fields the caller may replace; their values are frozen, as they are shared. */
  draft<T>(): T {
    const parted = this.#part();
    if (parted !== undefined) return parted.draft() as T;
    const value = JSON.parse(this.text) as T & object;
    try {
      return freezeFields(value);
    } catch {
      return value;
    }
  }

  /** The entity, frozen: shared by all readers. */
  view<T>(): T {
    if (this.#view !== undefined) return this.#view as T;
    const view = Object.freeze(this.draft<T & object>());
    if (this.length <= LONG) this.#view = view;
    return view;
  }

  /** The version for `entity`. Throws if it cannot be stored; `what` names it in the error. */
  next(entity: Entity, what: string): Body {
    const parted = this.#parted?.next(entity);
    if (parted === undefined) return new Body({ text: toJson(entity, what) }, true);
    return parted === this.#parted ? this : new Body({ parted }, true);
  }

  /** Keeps it parsed from the second request on, unless it is long. */
  #part(): PartedJson | undefined {
    if (this.#parted !== undefined) return this.#parted;
    const isKept = this.#isHot && this.length <= LONG;
    this.#isHot = true;
    if (!isKept) return undefined;
    try {
      this.#parted = PartedJson.of(JSON.parse(this.#text!) as Record<string, unknown>, this.length);
    } catch {
      // Nested more deeply than the stack allows.
    }
    return this.#parted;
  }
}
