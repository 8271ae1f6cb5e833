import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const pages = [
  "README.md",
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];
/** Code of the page that shows it as part of an object: a method of an agent. */
const METHOD = /^(?:async )?\w+(?:\([^)]*\) \{|: [{(])/;

function blocksOf(path: string, language: string): string[] {
  const fences = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)\\n\`\`\`$`, "gm");
  return [...read(path).matchAll(fences)].map(([, code]) => code!);
}

// Among the dependencies, so that imports are found; no other tool looks there.
mkdirSync(join(ROOT, "node_modules/.cache"), { recursive: true });
const folder = mkdtempSync(join(ROOT, "node_modules/.cache/code-of-docs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Problems that the compiler has with the code of the pages, by its own file name, or page and number of the block. */
function compile(code: Readonly<Record<string, string>>): string[] {
  for (const [file, text] of Object.entries(code)) writeFileSync(join(folder, file), `${text}\nexport {};\n`);
  for (const file of ["_names.d.ts", "_packages.d.ts"])
    copyFileSync(join(ROOT, "test/docs", file), join(folder, file));
  for (const agent of ["auditor", "hello"]) {
    const text = `import type { AgentDefinition } from "agent-control-service";\nexport declare const ${agent}: AgentDefinition;\n`;
    writeFileSync(join(folder, `${agent}.ts`), text);
  }
  writeFileSync(join(folder, "platform.ts"), "export default {} as never;\n");
  const { paths } = (
    JSON.parse(read("tsconfig.json")) as { compilerOptions: { paths: Record<string, string[]> } }
  ).compilerOptions;
  const absolute = Object.entries(paths).map(([name, places]) => [
    name,
    places.map((place) => join(ROOT, place)),
  ]);
  const compilerOptions = {
    noUnusedLocals: false,
    noUnusedParameters: false,
    paths: Object.fromEntries(absolute),
  };
  const config = { extends: join(ROOT, "tsconfig.json"), compilerOptions, include: ["*.ts"], exclude: [] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const { stdout } = spawnSync(process.execPath, [tsc, "-p", folder, "--pretty", "false"], {
    encoding: "utf8",
    cwd: folder,
  });
  return stdout.split("\n").filter((line) => line.trim() !== "");
}

/** Parts of examples: the last suite finds them there. */
function isShownFromExample(page: string, block: string): boolean {
  return page === "docs/agents.md" && (METHOD.test(block) || block.startsWith("/**"));
}

describe("the TypeScript on the pages", () => {
  const code = Object.fromEntries(
    pages.flatMap((page) =>
      blocksOf(page, "ts")
        .filter((block) => !isShownFromExample(page, block))
        .map((block, index) => {
          const [, own] = /^\/\/ src\/([\w-]+\.ts)$/m.exec(block) ?? [];
          if (own !== undefined) return [own, block];
          const name = `${page.replace(/^docs\/|\.md$/g, "").toLowerCase()}-${index + 1}.ts`;
          return [name, block];
        }),
    ),
  );

  it("compiles", () => {
    expect(Object.keys(code).length).toBeGreaterThan(20);
    expect(compile(code)).toEqual([]);
  });
});

describe("the agent of the readme", () => {
  it("is the example that is tested", () => {
    const [shown] = blocksOf("README.md", "ts");

    expect(shown).toBe(`// src/controller.ts\n${read("examples/reply-desk/controller.ts").trimEnd()}`);
  });

  it("is after the command that starts a project, and the two that run and check a clone", () => {
    const [project, clone] = blocksOf("README.md", "sh");

    expect(project).toMatch(/^npx agent-control-service init /);
    expect(clone).toMatch(/^npm ci && npm start .*\nnpm ci && npm test /);
    expect(read("README.md").indexOf(clone!)).toBeLessThan(read("README.md").indexOf("```ts"));
  });
});

describe("the methods on the agents page", () => {
  const methods = blocksOf("docs/agents.md", "ts").filter((block) =>
    isShownFromExample("docs/agents.md", block),
  );
  const bare = (text: string) => text.replace(/\s+/g, " ");
  const examples = ["assistant/controller.ts", "assistant/model.ts", "reply-desk/controller.ts"];

  it.each(methods.map((block) => [block.split("\n")[0], block]))(
    "are from a tested example: %s",
    (_first, block) => {
      expect(examples.filter((file) => bare(read(`examples/${file}`)).includes(bare(block!)))).toHaveLength(
        1,
      );
    },
  );
});
