/** Characters of a job's input that a search finds. */
const LONGEST = 300;

/** The beginning of a job's input as a search has it: its texts and numbers, in their order, one a line. */
export function inputText(fields: Readonly<Record<string, unknown>>): string {
  let text = "";
  for (const name in fields) {
    const value = fields[name];
    if (typeof value !== "string" && typeof value !== "number") continue;
    text += text === "" ? value : `\n${value}`;
    if (text.length >= LONGEST) return text.slice(0, LONGEST);
  }
  return text;
}
