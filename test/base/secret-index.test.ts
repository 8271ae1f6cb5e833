import { describe, expect, it } from "vitest";
import { SecretIndex } from "../../src/core/base/secret-index.ts";
import { seeded } from "../../src/core/store/contract/fixtures.ts";

const SHORTEST = 6;

/** A text of few characters, so that parts of it come again and again. */
function textOf(random: () => number, length: number): string {
  return Array.from({ length }, () => "abcé"[Math.floor(random() * 4)]).join("");
}

/** Each range that a secret covers, overlapping ones as one: read off character by character. */
function maskPlainly(text: string, secrets: readonly string[]): string {
  const covered = new Array<boolean>(text.length + 1).fill(false);
  const joined = new Array<boolean>(text.length + 1).fill(false);
  for (const secret of secrets) {
    for (let at = text.indexOf(secret); at >= 0; at = text.indexOf(secret, at + 1)) {
      covered.fill(true, at, at + secret.length);
      joined.fill(true, at + 1, at + secret.length);
    }
  }
  let masked = "";
  for (let at = 0; at < text.length; at++) {
    if (!covered[at]) masked += text[at];
    else if (!joined[at]) masked += "*";
  }
  return masked;
}

describe("a search for many texts", () => {
  it("finds what a plain search for each of them finds, wherever it is", () => {
    const random = seeded(20_26);
    let found = 0;
    for (let round = 0; round < 4000; round++) {
      const index = new SecretIndex(SHORTEST);
      const lengths = Array.from(
        { length: 1 + Math.floor(random() * 4) },
        () => SHORTEST + Math.floor(random() * 6),
      );
      const secrets = lengths.map((length) => textOf(random, length));
      index.add(secrets);
      const inside = secrets[Math.floor(random() * secrets.length)]!;
      const text =
        textOf(random, Math.floor(random() * 30)) +
        (random() < 0.3 ? inside : "") +
        textOf(random, Math.floor(random() * 9));
      const isThere = secrets.some((secret) => text.includes(secret));
      if (isThere) found++;
      const about = `${JSON.stringify(text)} in search of ${secrets}`;
      expect(index.finds(text), about).toBe(isThere);
      expect(index.replace(text, "*"), about).toBe(maskPlainly(text, secrets));
    }
    expect(found).toBeGreaterThan(500);
  });

  it("finds a text that begins and ends with the text that is searched", () => {
    const index = new SecretIndex(SHORTEST);
    index.add(["secret"]);

    expect(["secret", "secre", "ecret", "xsecret", "secretx", ""].map((text) => index.finds(text))).toEqual([
      true,
      false,
      false,
      true,
      true,
      false,
    ]);
  });
});
