import { extractText } from "unpdf";

/** A numbered part of a contract. */
export interface Clause {
  readonly number: number;
  readonly title: string;
  readonly text: string;
  /** The page that it begins on, from 1. */
  readonly page: number;
}

/** The clauses of a PDF whose titles are lines such as `6. Liability`. Throws where it has none, as a scan without text. */
export async function readClauses(pdf: Uint8Array): Promise<Clause[]> {
  const { text: pages } = await extractText(pdf, { mergePages: false });
  const clauses: Clause[] = [];
  for (const [at, page] of pages.entries()) {
    for (const line of page.split("\n")) {
      const title = /^\s*(\d{1,3})\.\s+(\S.{0,80})$/.exec(line);
      const last = clauses.at(-1);
      if (title) clauses.push({ number: Number(title[1]), title: title[2]!.trim(), text: "", page: at + 1 });
      else if (last) clauses[clauses.length - 1] = { ...last, text: `${last.text} ${line.trim()}`.trim() };
    }
  }
  if (clauses.length === 0) throw new Error("The PDF has no text with numbered clauses; is it a scan?");
  return clauses;
}

/** What a person is to decide about, by patterns in the text of a clause. */
const RULES: readonly (readonly [pattern: RegExp, finding: string])[] = [
  [/without limit|unlimited liab/i, "One party is liable without limit."],
  [/renews? automatically/i, "The agreement renews by itself."],
  [/may change the (?:fees|prices) at any time/i, "The other party may change the price alone."],
  [/notice (?:twelve|\d{2,}) months before/i, "The notice must be given very early."],
  [/law of the State of|courts of (?!Hamburg)/i, "Foreign law applies, or foreign courts decide."],
];

export function findingsOf({ text }: Clause): string[] {
  return RULES.flatMap(([pattern, finding]) => (pattern.test(text) ? [finding] : []));
}
