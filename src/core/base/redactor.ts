import { SecretIndex } from "./secret-index.ts";
import { wellFormed } from "./well-formed.ts";

/** What is shown in place of a secret. */
export const MASK = "[secret]";
/** Shorter values would mask ordinary words. */
const SHORTEST = 6;
/** A line of a longer secret, such as a key file, is redacted by itself from this length on. */
const SHORTEST_LINE = 16;
/** Number of job values to remember: bounds memory if every job has its own. */
const MOST_PASSING = 20_000;

/** A text that comes in parts, with secrets replaced that are split over parts, too. */
export interface RedactedParts {
  /** What is known of the text with the next part: what may be the beginning of a secret is held back. */
  take(part: string): string;
  /** What was held back; the text is over. */
  rest(): string;
}

/** Knows every secret value of this server and removes it from all output. */
export class Redactor {
  readonly #kept = new Set<string>();
  /** In the order of their last use. */
  readonly #passing = new Set<string>();
  #index = new SecretIndex(SHORTEST);

  /** Remembers a value, also in its JSON, URL, base64 (inside other text too) and hex forms, in lower and upper case. */
  add(secret: string | undefined | null): void {
    if (!secret || secret.length < SHORTEST || this.#kept.has(secret)) return;
    this.#kept.add(secret);
    this.#index.add(formsOf(secret));
  }

  /** Remembers a value that came with a job; the least recently used are forgotten beyond a limit. */
  addPassing(secret: string | undefined | null): void {
    if (!secret || secret.length < SHORTEST || this.#kept.has(secret)) return;
    const known = this.#passing.delete(secret);
    this.#passing.add(secret);
    if (!known) this.#index.add(formsOf(secret));
    if (this.#passing.size > MOST_PASSING) this.#forget();
  }

  /** Whether a text contains a known secret. */
  finds(text: string): boolean {
    return this.#index.finds(text);
  }

  /** The text with every known secret replaced. */
  text(text: string): string {
    return this.#index.replace(text, MASK);
  }

  /** For a text that comes in parts. */
  parts(): RedactedParts {
    let before = "";
    let held = "";
    return {
      take: (part) => {
        const index = this.#index;
        if (index.size === 0 && held === "") return part;
        const text = before + held + part;
        const end = index.settled(text);
        const skip = before.length;
        if (end <= skip) {
          held = text.slice(skip);
          return "";
        }
        held = text.slice(end);
        before = text.slice(end - 1, end);
        return index.replace(text.slice(0, end), MASK, skip);
      },
      rest: () => {
        const text = before + held;
        const skip = before.length;
        before = held = "";
        return this.#index.replace(text, MASK, skip);
      },
    };
  }

  /**
   * A copy of a JSON value with every known secret replaced, in keys too; the value itself if there is none.
   */
  json<T>(value: T): T {
    if (this.#index.size === 0 || (Array.isArray(value) && value.length === 0)) return value;
    if (typeof value !== "object" || value === null) return this.#clean(value) as T;
    const text = JSON.stringify(value);
    if (text === undefined || !this.#index.finds(text)) return value;
    return this.#clean(JSON.parse(text)) as T;
  }

  #clean(value: unknown): unknown {
    if (typeof value === "string") return this.text(value);
    if (Array.isArray(value)) return value.map((item) => this.#clean(item));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [this.text(key), this.#clean(item)]),
    );
  }

  #forget(): void {
    let surplus = Math.ceil(MOST_PASSING / 10);
    for (const secret of this.#passing) {
      if (surplus-- <= 0) break;
      this.#passing.delete(secret);
    }
    this.#index = new SecretIndex(SHORTEST);
    for (const secret of [...this.#kept, ...this.#passing]) this.#index.add(formsOf(secret));
  }
}

function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, "utf8");
  const lines = secret.split(/\r?\n/).map((line) => line.trim());
  const texts = [
    secret,
    secret.trim(),
    ...lines.filter((line) => line.length >= SHORTEST_LINE && !line.startsWith("-----")),
  ];
  return [
    ...texts,
    // In a string of JSON, and where that is in a string of JSON itself.
    ...texts.map(inJson),
    ...texts.map((text) => inJson(inJson(text))),
    encodeURIComponent(wellFormed(secret)),
    bytes.toString("hex"),
    bytes.toString("hex").toUpperCase(),
    ...[0, 1, 2].flatMap((offset) => base64Forms(bytes, offset)),
  ].filter((form) => form.length >= SHORTEST);
}

function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** The characters that depend only on the secret, if it starts `offset` bytes into a group of three. */
function base64Forms(bytes: Buffer, offset: number): string[] {
  const padded = Buffer.concat([Buffer.alloc(offset), bytes]);
  const range = [Math.ceil((offset * 8) / 6), Math.floor((padded.length * 8) / 6)] as const;
  return [padded.toString("base64").slice(...range), padded.toString("base64url").slice(...range)];
}

/** The password of a URL. */
export function passwordIn(url: string): string | undefined {
  const password = /^\w+:\/\/[^:@/?]*:([^@]*)@/.exec(url)?.[1];
  try {
    return password && decodeURIComponent(password);
  } catch {
    return password;
  }
}
