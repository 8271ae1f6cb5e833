import { type Html, html } from "../views/html.ts";

/**
 * Markdown as HTML: headings, lists, quotes, tables, code, emphasis and links. All text is escaped, HTML in it is text, and
 * images are named, not fetched.
 */
export function renderMarkdown(text: string): Html {
  return html`<div class="md">${blocks(text.split(/\r\n?|[\n\u2028\u2029]/), 0)}</div>`;
}

/** Quotes and lists inside of each other. */
const DEEPEST = 6;
const LIST = /^(\s{0,8})(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;

function blocks(lines: readonly string[], depth: number): Html[] {
  const shown: Html[] = [];
  let at = 0;
  /** The lines from here on that a block has. */
  const take = (isPart: (line: string) => boolean): string[] => {
    const from = at;
    while (at < lines.length && isPart(lines[at]!)) at++;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at]!;
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    const fence = /^\s{0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (line.trim() === "") at++;
    else if (fence !== undefined) {
      at++;
      const code = take((one) => !one.trimStart().startsWith(fence));
      at++;
      shown.push(html`<pre class="block" tabindex="0">${code.join("\n")}</pre>`);
    } else if (heading) {
      at++;
      shown.push(html`<p class="md-h md-h${heading[1]!.length}">${inline(heading[2]!)}</p>`);
    } else if (/^\s{0,3}(?:-\s*){3,}$|^\s{0,3}(?:\*\s*){3,}$|^\s{0,3}(?:_\s*){3,}$/.test(line)) {
      at++;
      shown.push(html`<hr>`);
    } else if (/^\s{0,3}>/.test(line) && depth < DEEPEST) {
      const quoted = take((one) => /^\s{0,3}>/.test(one)).map((one) => one.replace(/^\s{0,3}> ?/, ""));
      shown.push(html`<blockquote>${blocks(quoted, depth + 1)}</blockquote>`);
    } else if (LIST.test(line) && depth < DEEPEST) {
      shown.push(
        list(
          take((one) => LIST.test(one) || /^\s+\S/.test(one)),
          depth,
        ),
      );
    } else if (line.includes("|") && isRule(lines[at + 1])) {
      shown.push(table(take((one) => one.includes("|"))));
    } else {
      const first = at++;
      take(
        (one) => one.trim() !== "" && !/^(?:#{1,6}\s|\s{0,3}(?:>|`{3}|~{3}))/.test(one) && !LIST.test(one),
      );
      shown.push(html`<p>${inline(lines.slice(first, at).join("\n"))}</p>`);
    }
  }
  return shown;
}

/** The line below the head of a table. */
function isRule(line = ""): boolean {
  return line.includes("-") && /^[\s|:-]+$/.test(line);
}

function list(lines: readonly string[], depth: number): Html {
  const [, indent = "", number] = LIST.exec(lines[0]!) ?? [];
  const items: string[][] = [];
  for (const line of lines) {
    const [, own = "", , text = ""] = LIST.exec(line) ?? [];
    const isItem = LIST.test(line) && own.length <= indent.length;
    if (isItem || items.length === 0) items.push([text]);
    else items.at(-1)!.push(line.slice(Math.min(line.length - line.trimStart().length, indent.length + 2)));
  }
  const shown = items.map(([first = "", ...rest]) => {
    const below = rest.length > 0 ? blocks(rest, depth + 1) : "";
    return html`<li>${inline(first)}${below}</li>`;
  });
  return number === undefined ? html`<ul>${shown}</ul>` : html`<ol start="${number}">${shown}</ol>`;
}

function table([head = "", , ...rows]: readonly string[]): Html {
  const cells = (line: string) =>
    line
      .trim()
      .replace(/^\||\|$/g, "")
      .split("|")
      .map((cell) => inline(cell.trim()));
  return html`<div class="scroll"><table><thead><tr>${cells(head).map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead><tbody>${rows.map(
    (row) => html`<tr>${cells(row).map((cell) => html`<td>${cell}</td>`)}</tr>`,
  )}</tbody></table></div>`;
}

/** What has a mark inside of a line: code, a link or an image, strong, and emphasized text. */
const MARKS =
  /`([^`\n]{1,2000})`|(!?)\[([^[\]\n]{0,500})\]\(\s*<?([^[\s)>]{1,2000})>?(?:\s+"[^"\n]{0,300}")?\s*\)|\*\*([^*\n]{1,2000})\*\*|__([^_\n]{1,2000})__|\*([^*\s][^*\n]{0,2000})\*|(?<![\p{L}\p{N}])_([^_\s][^_\n]{0,2000})_(?![\p{L}\p{N}])/gu;

function inline(text: string): Html {
  const shown: (string | Html)[] = [];
  let from = 0;
  for (const match of text.matchAll(MARKS)) {
    const [whole, code, image, label, target, ...marked] = match;
    const [strong = marked[1], , emphasis = marked[3]] = marked;
    shown.push(text.slice(from, match.index));
    from = match.index + whole.length;
    if (code !== undefined) shown.push(html`<code>${code}</code>`);
    else if (target !== undefined) shown.push(link(image === "!", label ?? "", target));
    else shown.push(strong === undefined ? html`<em>${emphasis}</em>` : html`<strong>${strong}</strong>`);
  }
  return html`${shown}${text.slice(from)}`;
}

/** A link to another site shows where it leads; other targets than those of the web are text. */
function link(isImage: boolean, label: string, target: string): Html {
  if (isImage || !/^https?:\/\//i.test(target)) return html`${label || target}`;
  return html`<a class="link" href="${target}" title="${target}" rel="noopener noreferrer nofollow" target="_blank">${label || target}</a>`;
}
