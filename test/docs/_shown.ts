import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** A command line of a page, without its comment. */
export interface ShownCommand {
  readonly text: string;
  readonly page: string;
}

/** The pages that people read. */
export const PAGES: readonly string[] = [
  "README.md",
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

export const readPage = (page: string): string => readFileSync(join(ROOT, page), "utf8");

/** Every command line that the pages show in blocks for a shell. */
export function shownCommands(): ShownCommand[] {
  return PAGES.flatMap((page) => commandsOf(readPage(page)).map((text) => ({ text, page })));
}

/** Command lines of a page: those that end with a backslash continue; `$ ` before a command is the prompt of a console. */
export function commandsOf(text: string): string[] {
  const blocks = text.matchAll(
    /^([ \t]*)(`{3,})(?:sh|bash|shell|zsh|console)\b[^\n]*\n([\s\S]*?)^\1\2[ \t]*$/gm,
  );
  return [...blocks].flatMap(([, indent = "", , block = ""]) => {
    const isConsole = /^\s*\$ /m.test(block);
    const lines = block.split("\n").map((line) => line.slice(line.startsWith(indent) ? indent.length : 0));
    const commands: string[] = [];
    let open = false;
    for (const line of lines) {
      if (!open && isConsole && !line.startsWith("$ ")) continue;
      const bare = withoutComment(open ? line : line.replace(/^\$ /, ""));
      if (open) commands.push(`${commands.pop()}\n${bare}`);
      else commands.push(bare);
      open = bare.endsWith("\\") || hasOpenQuote(commands.at(-1)!);
    }
    return commands.filter((command) => command !== "");
  });
}

/** Names of variables that the pages mention. */
export function shownVariables(): string[] {
  const names = PAGES.flatMap(
    (page) => readPage(page).match(/\b(?:SERVICE|SVC|OTEL)_[A-Z][A-Z0-9_]*[A-Z0-9]\b/g) ?? [],
  );
  return [...new Set(names)].sort();
}

/** A `#` starts a comment where a word could start, outside of quotes. */
function withoutComment(line: string): string {
  const { comment } = scan(line);
  return line.slice(0, comment).trimEnd();
}

function hasOpenQuote(text: string): boolean {
  return scan(text).quote !== "";
}

function scan(text: string): { comment: number; quote: string } {
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    if (char === "\\" && quote !== "'") at++;
    else if (quote !== "") quote = char === quote ? "" : quote;
    else if (char === "'" || char === '"') quote = char;
    else if (char === "#" && (at === 0 || /\s/.test(text[at - 1]!))) return { comment: at, quote };
  }
  return { comment: text.length, quote };
}
