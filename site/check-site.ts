import { readdir, readFile } from "node:fs/promises";
import { join, posix, relative, sep } from "node:path";

/** What is wrong with built pages: links, headings and images that are not there, and requests to other sites. */
export async function checkSite(folder: string): Promise<string[]> {
  const files = await readFiles(folder);
  const idsOf = new Map<string, Set<string>>();
  for (const [file, text] of files)
    if (file.endsWith(".html")) idsOf.set(file, new Set(matches(text, /\sid="([^"]*)"/g)));
  const find = (from: string, address: string): string | undefined => {
    const path = address.startsWith("/") ? address.slice(1) : posix.join(posix.dirname(from), address);
    return [path, `${path}.html`, posix.join(path, "index.html")].find((each) => files.has(each));
  };

  const problems: string[] = [];
  for (const [file, text] of files) {
    const asked = file.endsWith(".css") ? ASKED_BY_STYLE : file.endsWith(".html") ? ASKED_BY_PAGE : undefined;
    if (asked) for (const [tag] of text.matchAll(asked)) problems.push(`${file} asks another site: ${tag}`);
    if (!file.endsWith(".html")) continue;
    for (const href of matches(text, /<a\s[^>]*?href="([^"]*)"/g)) {
      if (/^[a-z]+:/.test(href)) continue;
      const [, path = "", hash = ""] = /^([^#?]*)(?:\?[^#]*)?(?:#(.*))?$/.exec(href)!;
      const found = path === "" ? file : find(file, path);
      if (!found) problems.push(`${file} links to ${href}`);
      else if (hash !== "" && !idsOf.get(found)?.has(decodeURIComponent(hash)))
        problems.push(`${file} links to ${href}, and there is no such heading`);
    }
    for (const image of matches(text, /<img\s[^>]*?src="([^":]*)"/g))
      if (!image.startsWith("//") && !find(file, image))
        problems.push(`${file} shows ${image}, which is not there`);
  }
  return problems;
}

const ASKED_BY_PAGE = /<(?:script|img|link|iframe|source)\s[^>]*?(?:src|href)="(?:https?:)?\/\/[^>]*>/g;
const ASKED_BY_STYLE = /(?:url\(|@import\s+)["']?(?:https?:)?\/\/[^)"']*/g;

/** Paths with slashes; the text only of pages and styles. */
async function readFiles(folder: string): Promise<Map<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const texts = entries
    .filter((entry) => entry.isFile())
    .map(async (entry) => {
      const path = join(entry.parentPath, entry.name);
      const text = /\.(?:html|css)$/.test(path) ? await readFile(path, "utf8") : "";
      return [relative(folder, path).split(sep).join("/"), text] as const;
    });
  return new Map(await Promise.all(texts));
}

function matches(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, found]) => found!.replaceAll("&amp;", "&"));
}
