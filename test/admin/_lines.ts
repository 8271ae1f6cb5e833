const VOID = new Set(["area", "br", "hr", "img", "input", "link", "meta", "rect", "line", "use", "path"]);
/** What is not read: what a reader does not see, fields to fill in, and keys. */
const SKIPPED = new Set(["script", "style", "template", "select", "textarea", "kbd"]);
/** What starts a line and ends it. */
const BLOCKS = new Set([
  "li",
  "tr",
  "p",
  "section",
  "header",
  "form",
  "summary",
  "ul",
  "ol",
  "table",
  "dl",
  "nav",
]);
/** What starts a line that what is behind it continues. */
const LABELS = new Set(["h1", "h2", "h3", "dt"]);
const TOKEN = /<!--[\s\S]*?-->|<!doctype[^>]*>|<(\/?)([a-z][a-z0-9]*)((?:"[^"]*"|[^>"])*)>|([^<]+)/gi;

/** An element of a page. */
interface Element {
  readonly tag: string;
  readonly attributes: string;
}

/**
 * The lines of a page that have a number in them, as a reader sees them: of a list entry, of a row with its cells behind
 * each other, of a heading. A time is its `datetime`; of a drawing, what it says to those who do not see it. `within` opens
 * the part that is read, as `<main`; `without` opens parts of it that are not.
 */
export function numberedLines(
  html: string,
  { within = "<main", without = [] }: { readonly within?: string; readonly without?: readonly RegExp[] } = {},
): string[] {
  const from = html.indexOf(within);
  if (from < 0) throw new Error(`The page has no ${within}`);
  const open: Element[] = [];
  const lines: string[] = [];
  let line = "";
  const end = () => {
    const text = decode(line).replaceAll(/\s+/g, " ").trim();
    if (/\d/.test(text)) lines.push(text);
    line = "";
  };
  const isRead = () =>
    !open.some(
      ({ tag, attributes }) =>
        SKIPPED.has(tag) || without.some((pattern) => pattern.test(`<${tag}${attributes}>`)),
    );
  for (const [, closing, name, attributes = "", text] of html.slice(from).matchAll(TOKEN)) {
    const isDrawn = open.some(({ tag }) => tag === "svg" || tag === "time");
    if (text !== undefined) {
      if (!isDrawn && isRead()) line += text;
      continue;
    }
    if (name === undefined) continue;
    const tag = name.toLowerCase();
    if (!isDrawn && (BLOCKS.has(tag) || (LABELS.has(tag) && !closing))) end();
    else if (!isDrawn && tag !== "wbr") line += closing && (tag === "td" || tag === "th") ? " |" : " ";
    if (closing) {
      const at = open.findLastIndex((one) => one.tag === tag);
      if (at >= 0) open.length = at;
      if (open.length === 0) break;
    } else {
      const said = / aria-label="([^"]*)"/.exec(attributes)?.[1];
      const inDrawing = tag === "svg" || open.some((one) => one.tag === "svg");
      if (inDrawing && said !== undefined && isRead()) {
        end();
        line = said;
        end();
      }
      const time = tag === "time" ? / datetime="([^"]*)"/.exec(attributes)?.[1] : undefined;
      if (time !== undefined && isRead()) line += ` ${time} `;
      if (!VOID.has(tag) && !attributes.endsWith("/")) open.push({ tag, attributes });
    }
  }
  end();
  return lines;
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
const decode = (text: string) => text.replaceAll(/&(amp|lt|gt|quot|#39);/g, (_, name) => ENTITIES[name]!);
