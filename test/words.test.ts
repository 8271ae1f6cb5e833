import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Files and folders that are checked. */
const CHECKED = [
  "src",
  "test",
  "examples",
  "bench",
  "site",
  "docs",
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
];

/** British spellings. `cancelled` is a status of the API, and everything about it is spelled the same way. */
const BRITISH =
  /\b(?:(?:behavi|col|neighb|fav|hon|lab|flav|endeav|rum)our\w*|(?:data ?)?centre[sd]?|metres?|licence\w*|artefacts?|catalogues?|grey\w*|\w*(?:organ|recogn|serial|normal|initial|optim|minim|maxim|author|real|general|custom|synchron|capital|categor|priorit|util|final|special|stabil|token|sanit|parallel|summar|emphas|apolog|critic|memo)is(?:e[sdr]?|ing|ations?)|analyse[sdr]?|analysing|whilst|amongst|towards|afterwards|learnt|spelt|(?:label|model|travel|signal|marshal)l(?:ed|ing)|fulfil|judgement|defence|programme)\b/gi;

/** The section of CONTRIBUTING.md that has the word list. */
const WORDS = /^## Words$([\s\S]*?)^## /m;

/** The left column of the word list, which is in one place only. */
function listedWords(): string[] {
  const [, words = ""] = WORDS.exec(readFileSync(join(ROOT, "CONTRIBUTING.md"), "utf8")) ?? [];
  return [...words.matchAll(/^\| (?!Not |-)(.+?) +\|/gm)].flatMap(([, cell]) => cell!.trim().split(", "));
}

function findWords(text: string, listed: RegExp): string[] {
  return [...text.matchAll(listed), ...text.matchAll(BRITISH)].map(([word]) => word.replace(/\s+/g, " "));
}

function toPattern(words: readonly string[]): RegExp {
  return new RegExp(
    `(?<![\\w-])(?:${words.map((word) => word.replaceAll(" ", "\\s+")).join("|")})(?![\\w-])`,
    "gi",
  );
}

const COMMENT = /\/\*[\s\S]*?\*\/|(?<![:\\])\/\/[^\n]*/;
const REGEX = /(?<=[=(,:?&|![{;]\s*)\/(?![*/])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/;
const QUOTED = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/;
const TEMPLATE = /`(?:[^`\\$]|\\[\s\S]|\$(?!\{)|\$\{(?:[^{}`]|\{[^{}]*\}|`[^`]*`)*\})*`/;
const PROSE = new RegExp([COMMENT, REGEX, QUOTED, TEMPLATE].map(({ source }) => source).join("|"), "g");

/** Comments, and texts of more than one word, of a file of code; else all but the word list and names in code quotes. */
function proseOf(path: string, text: string): string {
  if (!/\.(?:[cm]?ts|[cm]?js)$/.test(path)) return text.replace(WORDS, "").replace(/`[\w-]+`/g, "…");
  return [...text.matchAll(PROSE)]
    .map(([found]) => found)
    .filter((found) => /^\/[*/]/.test(found) || (/^["'`]/.test(found) && found.includes(" ")))
    .map((found) => found.replace(/^\s*(?:\*|\/\/)/gm, "").replace(/\$\{[^}]*\}/g, "…"))
    .join("\n\n");
}

function filesOf(place: string): string[] {
  if (/\.\w+$/.test(place)) return [place];
  return readdirSync(join(ROOT, place), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(?:[cm]?ts|js|md|edge|ya?ml|css)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length))
    .filter((path) => path !== "test/words.test.ts" && !/\/(?:node_modules|dist|\.work-[^/]*)\//.test(path));
}

const words = listedWords();
const listed = toPattern(words);

describe("the word list of CONTRIBUTING.md", () => {
  it("is read, and finds its own words in comments and texts, but not in names", () => {
    expect(words).toContain("goes on");
    const code = [
      "/** The run goes",
      " * on. */",
      "export const anew = 1; // a colour",
      "const begun = state.begun; throw new Error(`$" + "{anew} exists already`);",
      'const type = "begun";',
    ].join("\n");

    expect(findWords(proseOf("a.ts", code), listed)).toEqual(["goes on", "exists already", "colour"]);
    expect(findWords(proseOf("a.md", "The job was begun anew. See `begun`."), listed)).toEqual([
      "begun",
      "anew",
    ]);
  });

  it.each(CHECKED.flatMap(filesOf))("is kept in %s", (path) => {
    const found = findWords(proseOf(path, readFileSync(join(ROOT, path), "utf8")), listed);

    expect(found).toEqual([]);
  });
});
