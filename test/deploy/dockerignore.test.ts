import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { parseIgnore } from "../../src/deploy/dockerignore.ts";
import { requirement } from "../_require.ts";
import { openDockerClient } from "./_docker-client.ts";
import { seeded, someFiles, someLines } from "./_ignore-cases.ts";

interface OtherRules {
  add(lines: string[]): OtherRules;
  ignores(path: string): boolean;
}
// Its types say what an ES module would give.
const dockerignore = createRequire(import.meta.url)("@balena/dockerignore") as (options: {
  ignorecase: boolean;
}) => OtherRules;

describe("ignore rules", () => {
  it.each([
    ["data", "data/x", true],
    ["data", "src/data", false],
    ["**/data", "src/data/y", true],
    ["*.log", "a.log", true],
    ["*.log", "logs/a.log", false],
    ["**/*.log", "logs/a.log", true],
    ["/data/", "data/x", true],
    [".env*\n!.env.example", ".env.example", false],
    [".env*\n!.env.example", ".env.local", true],
    ["src/?.ts", "src/a.ts", true],
    ["# data", "data", false],
    ["a.b", "axb", false],
    ["*.py[co]", "a.pyc", true],
    ["*.py[co]", "a.py", false],
    ["secret[0-9].env", "secret1.env", true],
    ["secret[^0-9].env", "secret1.env", false],
    ["a//b", "a/b", true],
    ["a/../b", "b", true],
    ["a\\*", "a*", true],
    ["a\\*", "ab", false],
    ["(group)/x", "(group)/x", true],
    ["\uFEFFdata", "data", true],
    ["data\r\nother", "data", true],
  ])("%j and %j", (rules, path, ignored) => {
    expect(parseIgnore(rules).ignores(path)).toBe(ignored);
  });

  it.each(["[a", "[]a]", "[z-a]", "a\\", "!", "\\d", "[*]"])(
    "the line %j is refused, as it would exclude other files than it seems to",
    (line) => {
      expect(() => parseIgnore(`data\n${line}\n`)).toThrow(/of a \.dockerignore cannot be used/);
    },
  );

  it.each([
    ["data\n!data/keep.txt", "data", true],
    ["data\n!other/keep.txt", "data", false],
    ["!data/keep.txt\ndata", "data", false],
    ["*\n!src/**/x", "src", true],
    ["*\n!src/**/x", "lib", false],
    ["**/tmp\n!**/keep", "a/tmp", true],
    ["*\n!d[ab]/keep", "da", true],
    ["*\n!d[ab]/keep", "dc", false],
  ])("after %j something below %j may be included: %j", (rules, folder, may) => {
    expect(parseIgnore(rules).mayKeepBelow(folder)).toBe(may);
  });

  it("never skips a folder below which something is included", () => {
    const random = seeded(5);
    const files = someFiles(random);
    let skipped = 0;
    for (let round = 0; round < 3000; round++) {
      const lines = someLines(random);
      const rules = parseIgnore(lines.join("\n"));
      for (const file of files) {
        const folder = dirname(file);
        if (folder === "." || !rules.ignores(folder) || rules.mayKeepBelow(folder)) continue;
        skipped++;
        if (!rules.ignores(file)) expect.fail(`${JSON.stringify(lines)} keeps ${file}, and skips ${folder}`);
      }
    }
    expect(skipped).toBeGreaterThan(1000);
  });
});

/** Lines and files on which rules disagree, the first of them in words. */
function differences(
  theirs: (lines: readonly string[]) => Promise<((file: string) => boolean) | undefined>,
  options: { readonly rounds: number; readonly files: readonly string[]; readonly random: () => number },
) {
  return async () => {
    const found: string[] = [];
    let compared = 0;
    for (let round = 0; round < options.rounds; round++) {
      const lines = someLines(options.random);
      const ignores = await theirs(lines);
      if (ignores === undefined) continue;
      const ours = parseIgnore(lines.join("\n"));
      for (const file of options.files) {
        compared++;
        if (ours.ignores(file) !== ignores(file)) found.push(`${JSON.stringify(lines)} ${file}`);
      }
    }
    return { compared, found: found.slice(0, 5) };
  };
}

describe("ignore rules beside @balena/dockerignore", () => {
  it("agree, except for letters that it treats as part of a regular expression, and Docker does not", async () => {
    const random = seeded(20);
    const files = someFiles(random);
    const compare = differences(
      async (lines) => {
        // Docker by now skips rules that change nothing so far, and compares `**name` with the end of a path.
        if (lines.some((line) => /[+(){}]|^!|\*\*[^/]/.test(line))) return undefined;
        const rules = dockerignore({ ignorecase: false }).add([...lines]);
        return (file) => rules.ignores(file);
      },
      { rounds: 6000, files, random },
    );

    const { compared, found } = await compare();

    expect(found).toEqual([]);
    expect(compared).toBeGreaterThan(50_000);
  });
});

const client = requirement("docker");

client.describe("ignore rules beside Docker itself", () => {
  client.it(
    "exclude the files that this machine's Docker client excludes",
    async () => {
      const docker = await openDockerClient();
      const cwd = mkdtempSync(join(tmpdir(), "svc-ignore-"));
      onTestFinished(async () => {
        await docker.close();
        rmSync(cwd, { recursive: true, force: true });
      });
      const seed = Number(process.env.SVC_IGNORE_SEED ?? 1);
      const random = seeded(seed);
      const files = someFiles(random);
      const folders = new Set<string>();
      for (const file of [...files, "Dockerfile"]) {
        const folder = dirname(file);
        mkdirSync(join(cwd, folder), { recursive: true });
        writeFileSync(join(cwd, file), "FROM scratch\n");
        for (let above = folder; above !== "."; above = dirname(above)) folders.add(above);
      }
      // Lets the client read every folder: the plain builder takes a wildcard for a name when it decides to skip one.
      const walked = [...folders].map((folder) => `!${folder}/none`);
      const compare = differences(
        async (lines) => {
          writeFileSync(join(cwd, ".dockerignore"), [...walked, ...lines].join("\n"));
          const sent = await docker.packed(cwd).catch(() => undefined);
          return sent && ((file) => !sent.includes(file));
        },
        { rounds: Number(process.env.SVC_IGNORE_ROUNDS ?? 120), files, random },
      );

      const { compared, found } = await compare();

      expect(found, `seed ${seed}`).toEqual([]);
      expect(compared).toBeGreaterThan(3000);
    },
    300_000,
  );
});
