/** Tells which files of a project stay out of a build, by the rules of a `.dockerignore`. */
export function parseIgnore(text: string): (path: string) => boolean {
  const rules = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const keep = line.startsWith("!");
      return { keep, pattern: toPattern(keep ? line.slice(1) : line) };
    });
  return (path) => {
    let ignored = false;
    for (const { keep, pattern } of rules) if (pattern.test(path)) ignored = !keep;
    return ignored;
  };
}

/** Docker's patterns are rooted, `**` crosses folders, and a match of a folder covers all below it. */
function toPattern(line: string): RegExp {
  const parts = line.replace(/^\/+|\/+$/g, "").replace(/^\.\//, "");
  let source = "";
  for (let at = 0; at < parts.length; at++) {
    const char = parts[at] ?? "";
    if (parts.startsWith("**/", at)) {
      source += "(?:.*/)?";
      at += 2;
    } else if (parts.startsWith("**", at)) {
      source += ".*";
      at += 1;
    } else if (char === "*") source += "[^/]*";
    else if (char === "?") source += "[^/]";
    else source += char.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  }
  return new RegExp(`^${source}(?:/.*)?$`);
}
