const [QUOTE, BACKSLASH, COMMA, COLON] = [34, 92, 44, 58];
const OPEN = new Set([91, 123]);
const CLOSE = new Set([93, 125]);
const BLANK = new Set([9, 10, 13, 32]);

/** A part of a list or map: the text of its value, and in a map that of its key. */
export interface JsonPart {
  readonly key: string | undefined;
  readonly value: string;
}

/** Splits a large JSON list or map, with one part in memory at a time. The caller parses the parts. */
export async function* splitJson(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<JsonPart, void> {
  const splitter = new Splitter();
  for await (const chunk of chunks) {
    yield* splitter.add(chunk);
  }
  splitter.end();
}

class Splitter {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isOver = false;
  #key: string | undefined;
  /** State of the part that is being read. */
  #parts: Uint8Array[] = [];

  *add(chunk: Uint8Array): Generator<JsonPart, void> {
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]!;
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (byte === BACKSLASH) this.#isEscaped = true;
        else if (byte === QUOTE) this.#isInString = false;
        continue;
      }
      if (this.#isOver && !BLANK.has(byte)) throw new SyntaxError("there is content after the end");
      if (byte === QUOTE) this.#isInString = true;
      else if (OPEN.has(byte)) {
        if (this.#depth++ === 0) start = at + 1;
      } else if (CLOSE.has(byte)) {
        if (--this.#depth > 0) continue;
        yield* this.#take(chunk.subarray(start, at));
        this.#isOver = true;
      } else if (this.#depth === 1 && byte === COMMA) {
        yield* this.#take(chunk.subarray(start, at));
        start = at + 1;
      } else if (this.#depth === 1 && byte === COLON) {
        this.#parts.push(chunk.subarray(start, at));
        this.#key = this.#text();
        start = at + 1;
      }
    }
    if (this.#depth > 0) this.#parts.push(Uint8Array.from(chunk.subarray(start)));
  }

  end(): void {
    if (!this.#isOver) throw new SyntaxError("the end is missing");
  }

  *#take(last: Uint8Array): Generator<JsonPart, void> {
    this.#parts.push(last);
    const value = this.#text();
    const key = this.#key;
    this.#key = undefined;
    if (value !== "") yield { key, value };
  }

  #text(): string {
    const text = Buffer.concat(this.#parts).toString().trim();
    this.#parts = [];
    return text;
  }
}
