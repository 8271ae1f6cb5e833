import { posix } from "node:path";
import type { Page } from "./pages.ts";

/** Where a link of a file leads: to a page of the site, or to a file that is copied into it. */
export type Target = { readonly page: Page } | { readonly file: string };

/**
 * The text of a page with the links of the site in place of those that a code host understands, and the files that it
 * links to. Throws where a link leads nowhere.
 */
export function turnLinks(
  text: string,
  { source, target }: Pick<Page, "source" | "target">,
  find: (path: string) => Target | undefined,
): { text: string; files: Map<string, string> } {
  const files = new Map<string, string>();
  const turn = (link: string): string => {
    if (/^(?:[a-z]+:|#)/.test(link)) return link;
    const [, path = "", hash = ""] = /^([^#]*)(#.*)?$/.exec(link)!;
    const found = find(posix.join(posix.dirname(source), path).replace(/\/$/, ""));
    if (!found) throw new Error(`${source} links to ${link}, which is not there`);
    if ("page" in found) return posix.relative(posix.dirname(target), found.page.target) + hash;
    // Servers do not know what a .ts file is.
    const copy = /\.(?:png|svg|jpg)$/.test(found.file) ? found.file : `source/${found.file}.txt`;
    files.set(found.file, copy);
    return `/${copy}`;
  };
  // Every other part is code.
  const parts = text.split(/(^```[\s\S]*?^```$|`[^`\n]*`)/m);
  const turned = parts.map((part, at) =>
    at % 2 === 1 ? part : part.replace(/(?<=\]\()[^)\s]+(?=\))/g, turn),
  );
  return { text: turned.join(""), files };
}
