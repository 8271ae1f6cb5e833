/** A generator of numbers from a seed, each from 0 to below 1. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const NAMES = ["a", "b", "ab", "b.c", "a.b", "a+", "(b)", "a{b}", "x$", ".a", "a b", "é", "-a"];
const PIECES = [
  "a",
  "b",
  "ab",
  ".",
  "*",
  "?",
  "[ab]",
  "[^a]",
  "[a-c]",
  "+",
  "(b)",
  "{b}",
  "$",
  "\\*",
  "é",
  ".c",
];
const FOLDERS = ["**", "*", "a", "b", "ab", "?", "[ab]", ".", "..", "", "**a", "a**", "-a"];

/** Files of a small project: names at up to three depths. */
export function someFiles(random: () => number): string[] {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const files = new Set<string>();
  for (let i = 0; i < 60; i++) {
    const depth = Math.floor(random() * 3);
    const folders = Array.from({ length: depth }, () => `d${pick(["", "a", "b"])}`);
    // Folders and files never share a name: folders get a letter that no file has.
    files.add([...folders.map((one) => (random() < 0.5 ? one : `${one}x`)), pick(NAMES)].join("/"));
  }
  return [...files];
}

/** Lines of a `.dockerignore` over those names, as odd as people write them. */
export function someLines(random: () => number): string[] {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  return Array.from({ length: 1 + Math.floor(random() * 4) }, () => {
    const folders = Array.from({ length: Math.floor(random() * 3) }, () =>
      random() < 0.5 ? pick(FOLDERS) : pick(["d", "da", "db", "dx", "dax", "d*", "d?", "d[ab]"]),
    );
    const name =
      random() < 0.5
        ? pick(NAMES)
        : Array.from({ length: 1 + Math.floor(random() * 2) }, () => pick(PIECES)).join("");
    const line = [...folders, random() < 0.15 ? "**" : name].join("/");
    const spaced = random() < 0.1 ? ` ${line} ` : line;
    return `${random() < 0.25 ? "!" : ""}${random() < 0.1 ? "/" : ""}${spaced}${random() < 0.1 ? "/" : ""}`;
  });
}
