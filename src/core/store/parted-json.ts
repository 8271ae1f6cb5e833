import { cloneJson, freezeFields, freezeJson, isPlain, isSameJson, isSameStart } from "./json-value.ts";

type Fields = Record<string, unknown>;

/** The JSON of one field that has changed before, or of several beside each other that have not. */
interface Piece {
  /** Position of its first field. */
  readonly from: number;
  /** Position behind its last field. */
  readonly to: number;
  /** What opens or separates them, and the fields with their names. */
  readonly json: string;
}

/**
 * A plain object that came from JSON, kept with its JSON in pieces, so that another version of it costs only the fields
 * that differ. Versions share what is equal in them.
 */
export class PartedJson {
  /** Never given out; what is in its fields is frozen, and shared with those who get it. */
  readonly #value: Fields;
  readonly #keys: readonly string[];
  /** Made for the first version that differs. */
  readonly #pieces: readonly Piece[];

  private constructor(value: Fields, keys: readonly string[], pieces: readonly Piece[]) {
    this.#value = value;
    this.#keys = keys;
    this.#pieces = pieces;
  }

  /** Takes over a value that came from JSON. Throws where it is nested more deeply than the stack allows. */
  static of(value: Fields): PartedJson {
    return new PartedJson(freezeFields(value), Object.keys(value), []);
  }

  /** The JSON in strings to be written one behind the other. */
  get texts(): string[] {
    const texts: string[] = [];
    for (let place = 0; place < this.#pieces.length; place++) texts.push(this.#pieces[place]!.json);
    texts.push("}");
    return texts;
  }

  /** Number of characters of the JSON. */
  get length(): number {
    let length = 1;
    for (let place = 0; place < this.#pieces.length; place++) length += this.#pieces[place]!.json.length;
    return length;
  }

  copy(): Fields {
    return cloneJson(this.#value);
  }

  /** An object with its fields; what is in them is frozen. */
  draft(): Fields {
    return { ...this.#value };
  }

  /**
   * Another version, itself where nothing differs; `undefined` where it has other fields, or where JSON would not take it
   * field by field.
   */
  next(value: object): PartedJson | undefined {
    if (!isPlain(value)) return undefined;
    try {
      const changed = this.#changedIn(value);
      return changed?.length === 0 ? this : changed && this.#with(value, changed);
    } catch {
      // Serialising it as a whole tells what is wrong with it.
      return undefined;
    }
  }

  /** The positions of the fields that differ; `undefined` where there are others. */
  #changedIn(value: Fields): number[] | undefined {
    const changed: number[] = [];
    let at = 0;
    for (const key in value) {
      const field = value[key];
      if (field === undefined) continue;
      if (key !== this.#keys[at]) return undefined;
      if (!isSameJson(field, this.#value[key])) changed.push(at);
      at++;
    }
    return at === this.#keys.length ? changed : undefined;
  }

  #with(value: Fields, changed: readonly number[]): PartedJson | undefined {
    const next = { ...this.#value };
    const pieces = this.#pieces.slice();
    let isApart = true;
    for (const at of changed) {
      const key = this.#keys[at]!;
      const place = pieces.findIndex(({ to }) => at < to);
      const piece = pieces[place];
      const own = piece !== undefined && piece.to === piece.from + 1;
      const field =
        (own ? longer(value[key], { known: this.#value[key], json: piece.json }) : undefined) ??
        whole(key, value[key], opening(at));
      if (field === undefined) return undefined;
      next[key] = field.value;
      if (own) pieces[place] = { from: at, to: at + 1, json: field.json };
      else isApart = false;
    }
    return new PartedJson(next, this.#keys, isApart ? pieces : this.#apart(next, changed));
  }

  /** Pieces in which each of some fields, and each that was before, is a piece of its own. */
  #apart(value: Fields, fields: readonly number[]): Piece[] {
    const alone = new Set(fields);
    for (const { from, to } of this.#pieces) if (to === from + 1) alone.add(from);
    const pieces: Piece[] = [];
    const add = (from: number, to: number) => {
      const some = Object.fromEntries(this.#keys.slice(from, to).map((key) => [key, value[key]]));
      if (from < to) pieces.push({ from, to, json: opening(from) + JSON.stringify(some).slice(1, -1) });
    };
    let from = 0;
    for (const at of [...alone].sort((a, b) => a - b)) {
      add(from, at);
      add(at, at + 1);
      from = at + 1;
    }
    add(from, this.#keys.length);
    return pieces;
  }
}

interface Field {
  readonly value: unknown;
  readonly json: string;
}

/** A list that is one that is known with something added: only that is serialised. */
function longer(field: unknown, { known, json }: { known: unknown; json: string }): Field | undefined {
  if (!Array.isArray(field) || !Array.isArray(known) || known.length === 0) return undefined;
  if (!isSameStart(field, known)) return undefined;
  const added = JSON.stringify(field.slice(known.length));
  const value = Object.freeze([...known, ...freezeJson(JSON.parse(added) as unknown[])]);
  return { value, json: `${json.slice(0, -1)},${added.slice(1)}` };
}

function whole(key: string, field: unknown, start: string): Field | undefined {
  const json = JSON.stringify(field);
  // A function is no JSON: such a field is left out.
  if (json === undefined) return undefined;
  return { value: freezeJson(JSON.parse(json) as unknown), json: `${start}${JSON.stringify(key)}:${json}` };
}

/** What stands in front of the field at a position. */
function opening(at: number): string {
  return at === 0 ? "{" : ",";
}
