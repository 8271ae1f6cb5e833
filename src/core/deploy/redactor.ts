/** Hides secrets in text on its way to people and files. */
export interface Redactor {
  add(secret: string): void;
  apply(text: string): string;
}

const MASK = "***";
/** Shorter values would black out ordinary words. */
const SHORTEST = 4;

/** A redactor of its own; also knows each secret's base64, URL and JSON spelling and the lines of a longer one. */
export function createRedactor(): Redactor {
  const known = new Set<string>();
  return {
    add(secret) {
      for (const form of formsOf(secret)) if (form.length >= SHORTEST) known.add(form);
    },
    apply(text) {
      let clean = text;
      // Longest first: a secret that contains another must not leave its tail behind.
      for (const form of [...known].sort((a, b) => b.length - a.length)) {
        if (clean.includes(form)) clean = clean.replaceAll(form, MASK);
      }
      return clean;
    },
  };
}

function formsOf(secret: string): string[] {
  const trimmed = secret.trim();
  const lines = trimmed.split(/\r?\n/).filter((line) => line.length >= 16 && !line.startsWith("-----"));
  return [
    trimmed,
    Buffer.from(secret).toString("base64"),
    Buffer.from(trimmed).toString("base64"),
    encodeURIComponent(trimmed),
    JSON.stringify(trimmed).slice(1, -1),
    ...(trimmed.includes("\n") ? lines : []),
  ];
}
