const MASK = "[secret]";
/** Shorter values would mask ordinary words. */
const SHORTEST = 6;

/** Knows every secret value of this server and takes it out of whatever leaves it. */
export class Redactor {
  readonly #secrets = new Set<string>();
  #pattern: RegExp | undefined;

  /** Remembers a value, also as it stands in JSON, in a URL and in base64. */
  add(secret: string | undefined | null): void {
    if (!secret || secret.length < SHORTEST || this.#secrets.has(secret)) return;
    const json = JSON.stringify(secret).slice(1, -1);
    const base64 = Buffer.from(secret, "utf8").toString("base64");
    for (const form of [secret, json, encodeURIComponent(toWellFormed(secret)), base64])
      this.#secrets.add(form);
    this.#pattern = undefined;
  }

  /** The text with every known secret replaced. */
  text(text: string): string {
    if (this.#secrets.size === 0) return text;
    this.#pattern ??= new RegExp(
      [...this.#secrets]
        .sort((a, b) => b.length - a.length)
        .map((secret) => secret.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
        .join("|"),
      "g",
    );
    return text.replace(this.#pattern, MASK);
  }

  /** A copy of a JSON value with every known secret replaced, in keys too; the value itself where there is none. */
  json<T>(value: T): T {
    if (this.#secrets.size === 0 || value === undefined) return value;
    const text = JSON.stringify(value);
    if (text === undefined) return value;
    const clean = this.text(text);
    return clean === text ? value : (JSON.parse(clean) as T);
  }
}

function toWellFormed(text: string): string {
  return text.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, "\uFFFD");
}
