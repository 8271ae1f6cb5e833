import { cloneFields, freezeFields, freezeJson, isPlain, isSameJson, isSameStart } from "../json-value.ts";

type Fields = Record<string, unknown>;

/** The JSON of one field, with its value, or of several adjacent unchanged fields. */
interface Piece {
  /** Position of its first field. */
  readonly from: number;
  /** Position after its last field. */
  readonly to: number;
  /** Opening or separating characters, and the fields with their names. */
  readonly json: string;
  readonly value: unknown;
}

/** The first version, which later versions share fields with. */
interface First {
  /** Never returned itself; its field values are frozen, and shared with callers. */
  readonly value: Fields;
  readonly keys: readonly string[];
  /** Its fields by position. */
  readonly fields: readonly unknown[];
  /** Number of characters of its JSON. */
  readonly length: number;
}

/**
 * A plain object that came from JSON, kept as its first version and its JSON in pieces, so that another
 * version of it costs only the fields that differ. Versions share equal parts.
 *
 * Drafts are copies of the first version, with the fields that differ set after that: V8 copies the result of
 * `JSON.parse` in one operation, but a copy of a copy field by field.
 */
export class PartedJson {
  readonly #first: First;
  /** None for the first version. A field that differs from it is a piece of its own. */
  readonly #pieces: readonly Piece[];
  /** Number of characters of the JSON. */
  readonly length: number;

  private constructor(first: First, pieces: readonly Piece[]) {
    this.#first = first;
    this.#pieces = pieces;
    this.length = pieces.length === 0 ? first.length : lengthOf(pieces);
  }

  /**
   * Takes ownership of a value that came from JSON of so many characters. Throws if it is nested more deeply
   * than the stack allows.
   */
  static of(value: Fields, length: number): PartedJson {
    freezeFields(value);
    return new PartedJson({ value, length, keys: Object.keys(value), fields: Object.values(value) }, []);
  }

  /** The JSON as strings to be written one after another; none for the first version. */
  get texts(): string[] {
    const texts: string[] = [];
    for (let place = 0; place < this.#pieces.length; place++) texts.push(this.#pieces[place]!.json);
    texts.push("}");
    return texts;
  }

  copy(): Fields {
    return cloneFields(this.draft());
  }

  /** An object with its fields; their values are frozen. */
  draft(): Fields {
    const draft = { ...this.#first.value };
    for (let place = 0; place < this.#pieces.length; place++) {
      const piece = this.#pieces[place]!;
      // Each key is an own one by then, also `__proto__`: setting it sets no prototype.
      if (isOne(piece)) draft[this.#first.keys[piece.from]!] = piece.value;
    }
    return draft;
  }

  /**
   * Another version, or itself if nothing differs; `undefined` if it has other fields, if JSON would not
   * serialize it field by field, or if too little is left to be worth keeping the first version.
   */
  next(value: object): PartedJson | undefined {
    if (!isPlain(value)) return undefined;
    try {
      const changed = this.#changedIn(value);
      return changed?.length === 0 ? this : changed && this.#with(value, changed);
    } catch {
      // Serializing it as a whole shows what is wrong with it.
      return undefined;
    }
  }

  /** The positions of the fields that differ; `undefined` if there are other fields. */
  #changedIn(value: Fields): number[] | undefined {
    const { keys, fields } = this.#first;
    const changed: number[] = [];
    let at = 0;
    let place = 0;
    for (const key in value) {
      const field = value[key];
      if (field === undefined) continue;
      if (key !== keys[at]) return undefined;
      if (place < this.#pieces.length && this.#pieces[place]!.to <= at) place++;
      const piece = this.#pieces[place];
      const known = piece !== undefined && isOne(piece) ? piece.value : fields[at];
      if (!isSameJson(field, known)) changed.push(at);
      at++;
    }
    return at === keys.length ? changed : undefined;
  }

  #with(value: Fields, changed: readonly number[]): PartedJson | undefined {
    const pieces = this.#pieces.slice();
    const others: Piece[] = [];
    for (const at of changed) {
      const key = this.#first.keys[at]!;
      const place = placeOf(at, pieces);
      const piece = pieces[place];
      const isOwn = piece !== undefined && isOne(piece);
      const next = (isOwn ? longer(value[key], piece) : undefined) ?? whole(key, value[key], at);
      if (next === undefined) return undefined;
      if (isOwn) pieces[place] = next;
      else others.push(next);
    }
    const made = new PartedJson(this.#first, others.length === 0 ? pieces : this.#apart(pieces, others));
    return made.length < this.#first.length / 2 ? undefined : made;
  }

  /** Pieces in which the given fields are separate pieces, and each that was before. */
  #apart(pieces: readonly Piece[], fields: readonly Piece[]): Piece[] {
    const ones = [...pieces.filter(isOne), ...fields].sort((a, b) => a.from - b.from);
    const apart: Piece[] = [];
    let from = 0;
    for (const one of ones) {
      if (from < one.from) apart.push(this.#unchanged(from, one.from));
      apart.push(one);
      from = one.to;
    }
    if (from < this.#first.keys.length) apart.push(this.#unchanged(from, this.#first.keys.length));
    return apart;
  }

  /** The piece of fields that are unchanged from the first version. */
  #unchanged(from: number, to: number): Piece {
    const { keys, fields } = this.#first;
    const some = Object.fromEntries(keys.slice(from, to).map((key, at) => [key, fields[from + at]]));
    return { from, to, json: opening(from) + JSON.stringify(some).slice(1, -1), value: fields[from] };
  }
}

function isOne({ from, to }: Piece): boolean {
  return to === from + 1;
}

function lengthOf(pieces: readonly Piece[]): number {
  let length = 1;
  for (let place = 0; place < pieces.length; place++) length += pieces[place]!.json.length;
  return length;
}

/** The piece that a field is in; none if there are no pieces yet. */
function placeOf(at: number, pieces: readonly Piece[]): number {
  for (let place = 0; place < pieces.length; place++) if (at < pieces[place]!.to) return place;
  return -1;
}

/** A known list with something appended: only the addition is serialized. */
function longer(field: unknown, piece: Piece): Piece | undefined {
  const { value: known, json } = piece;
  if (!Array.isArray(field) || !Array.isArray(known) || known.length === 0) return undefined;
  if (!isSameStart(field, known)) return undefined;
  const added = JSON.stringify(field.slice(known.length));
  const value = Object.freeze([...known, ...freezeJson(JSON.parse(added) as unknown[])]);
  return { from: piece.from, to: piece.to, json: `${json.slice(0, -1)},${added.slice(1)}`, value };
}

/** The piece of one field; `undefined` if JSON omits it, as it does a function. */
function whole(key: string, field: unknown, at: number): Piece | undefined {
  const text = JSON.stringify(field);
  if (text === undefined) return undefined;
  const value = typeof field === "string" ? field : freezeJson(JSON.parse(text) as unknown);
  return { from: at, to: at + 1, json: `${opening(at)}${JSON.stringify(key)}:${text}`, value };
}

/** The text before the field at a position. */
function opening(at: number): string {
  return at === 0 ? "{" : ",";
}
