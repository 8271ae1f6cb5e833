import { DeployError } from "./errors.ts";

/** Which paths the lines of a `.dockerignore` exclude, by Docker's own rules. */
export interface IgnoreRules {
  /**
   * Whether the last line that matches the path, or a folder above it, excludes it. Paths are relative, with
   * `/`.
   */
  ignores(path: string): boolean;
  /** Whether a line may re-include something below an excluded folder. */
  mayKeepBelow(folder: string): boolean;
  /** Paths that a `!` line names in full, without a wildcard. */
  readonly keptByName: ReadonlySet<string>;
}

interface Rule {
  readonly keep: boolean;
  /** The pattern as Docker cleans it. */
  readonly text: string;
  readonly literal: boolean;
  readonly matches: (path: string) => boolean;
  /** The segments before the first `**`, each to be matched by itself. */
  readonly leading: readonly ((segment: string) => boolean)[];
  /** Whether `**` follows the leading segments, so that the rule may match at any depth below. */
  readonly deep: boolean;
}

/**
 * Reads the lines of a `.dockerignore`; rejects a line that Docker would reject, or would read in an
 * unintended way.
 *
 * @param options.ignoreCase matches letters of either case, which Docker does not. @default false
 */
export function parseIgnore(lines: string, options: { readonly ignoreCase?: boolean } = {}): IgnoreRules {
  const rules = lines
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .map((line) => readRule(line, options.ignoreCase === true ? "iu" : "u"))
    .filter((rule) => rule !== undefined);
  const folders = new Map<string, readonly boolean[]>();
  /**
   * Which rules match the path or a folder above it. As in Docker, a rule is skipped if it would change
   * nothing so far: a `!` line takes effect only below a folder that another line excludes.
   */
  const matchesOf = (path: string): readonly boolean[] => {
    const at = path.lastIndexOf("/");
    const above = at < 0 ? undefined : matchesOfFolder(path.slice(0, at));
    let ignored = false;
    return rules.map(({ keep, matches }, index) => {
      const match = above?.[index] === true || (keep === ignored && matches(path));
      if (match) ignored = !keep;
      return match;
    });
  };
  const matchesOfFolder = (folder: string): readonly boolean[] => {
    const matches = folders.get(folder) ?? matchesOf(folder);
    folders.set(folder, matches);
    return matches;
  };
  return {
    ignores: (path) => rules[matchesOf(path).lastIndexOf(true)]?.keep === false,
    mayKeepBelow(folder) {
      const segments = folder.split("/");
      const from = matchesOf(folder).lastIndexOf(true);
      return rules.slice(from + 1).some((rule) => rule.keep && reachesBelow(rule, segments));
    },
    keptByName: new Set(rules.filter(({ keep, literal }) => keep && literal).map(({ text }) => text)),
  };
}

function readRule(line: string, flags: string): Rule | undefined {
  if (line.startsWith("#")) return undefined;
  const trimmed = line.trim();
  const keep = trimmed.startsWith("!");
  const cleaned = clean((keep ? trimmed.slice(1) : trimmed).trim()).replace(/^\/(?=.)/, "");
  // Docker cleans twice: a space before a last `/` is at the end once that is gone.
  const text = clean(cleaned.trim());
  if (trimmed === "!") throw bad(line, "it re-includes nothing");
  if (text === "") return undefined;
  const segments = text.split("/");
  const at = segments.findIndex((segment) => segment.includes("**"));
  const toMatcher = (pattern: string) => {
    const regexp = new RegExp(`^${toSource(pattern, line)}$`, flags);
    return (path: string) => regexp.test(path);
  };
  return {
    keep,
    text,
    literal: !/[*?[\\]/.test(text),
    matches: toMatcher(text),
    leading: segments.slice(0, at < 0 ? undefined : at).map(toMatcher),
    deep: at >= 0,
  };
}

function reachesBelow({ leading, deep }: Rule, folder: readonly string[]): boolean {
  const shared = Math.min(leading.length, folder.length);
  for (let at = 0; at < shared; at++) if (!leading[at]?.(folder[at] ?? "")) return false;
  return deep || leading.length > folder.length;
}

/** What Go's `filepath.Clean` makes of a pattern. */
function clean(pattern: string): string {
  const rooted = pattern.startsWith("/");
  const segments: string[] = [];
  for (const segment of pattern.split("/")) {
    if (segment === "" || segment === ".") continue;
    if (segment === ".." && segments.length > 0 && segments.at(-1) !== "..") segments.pop();
    else if (segment !== ".." || !rooted) segments.push(segment);
  }
  return `${rooted ? "/" : ""}${segments.join("/")}`;
}

const SPECIAL = /[\\^$.*+?()[\]{}|/]/;
const literally = (char: string) => (SPECIAL.test(char) ? `\\${char}` : char);

/** `**` crosses folders, `*` and `?` do not, `[a-z]` and `[^a-z]` are one character, `\` takes the next one literally. */
function toSource(pattern: string, line: string): string {
  const chars = [...pattern];
  let source = "";
  for (let at = 0; at < chars.length; at++) {
    const char = chars[at] ?? "";
    if (char === "*" && chars[at + 1] === "*") {
      at += chars[at + 2] === "/" ? 2 : 1;
      // Docker compares `**name` with the end of the path, whatever comes before it.
      const isSuffix = at < 3 && !/[*?[\\]/.test(chars.slice(at + 1).join("")) && chars[at] === "*";
      source += at + 1 === chars.length || isSuffix ? ".*" : "(?:.*/)?";
    } else if (char === "*") source += "[^/]*";
    else if (char === "?") source += "[^/]";
    else if (char === "[") {
      const [end, members] = readClass(chars, at, line);
      source += members;
      at = end;
    } else if (char === "\\") {
      at += 1;
      source += literally(escaped(chars[at], line));
    } else source += literally(char);
  }
  return source;
}

/** A class that starts at `[`: the index of its `]`, and the class as a regular expression. */
function readClass(chars: readonly string[], start: number, line: string): [number, string] {
  let at = start + 1;
  const negated = chars[at] === "^";
  if (negated) at += 1;
  const members: string[] = [];
  const member = (): string => {
    const char = chars[at++];
    if (char === undefined || char === "-" || char === "]") throw bad(line, "its [class] is not well formed");
    if (char === "[" || char === "*" || char === "?")
      throw bad(line, `its [class] has a ${char}: write \\${char}`);
    return char === "\\" ? escaped(chars[at++], line) : char;
  };
  const escapeMember = (char: string) => (/[\\\]^[-]/.test(char) ? `\\${char}` : char);
  do {
    const low = member();
    if (chars[at] !== "-") {
      members.push(escapeMember(low));
      continue;
    }
    at += 1;
    const high = member();
    if (high < low) throw bad(line, `its [class] runs from ${low} down to ${high}`);
    members.push(`${escapeMember(low)}-${escapeMember(high)}`);
  } while (chars[at] !== "]");
  return [at, `[${negated ? "^" : ""}${members.join("")}]`];
}

function escaped(char: string | undefined, line: string): string {
  if (char === undefined) throw bad(line, "nothing follows its last \\");
  // Docker happens to read `\d` as any digit; nobody intends that.
  if (/[A-Za-z0-9]/.test(char)) throw bad(line, `\\${char} has no meaning in a pattern`);
  return char;
}

function bad(line: string, why: string): DeployError {
  return new DeployError("usage", `The line "${line.trim()}" of a .dockerignore cannot be used: ${why}`, {
    outcome: "Nothing was built",
    fix: "Correct or remove the line: https://docs.docker.com/reference/dockerfile/#dockerignore-file",
  });
}
