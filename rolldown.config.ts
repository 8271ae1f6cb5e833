import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { BuildOptions } from "rolldown";
import { parseSync, Visitor } from "rolldown/utils";
import { compiledTemplates } from "./compile-templates.ts";

const ROOT = fileURLToPath(new URL(".", import.meta.url));
const SRC = join(ROOT, "src");
const PLACE = "__PLACE_OF__";

/** Besides what people import and run: modules that processes start with. */
const STARTED = ["core/runs/isolation/agent-main"];

/** Packages that are installed with ours: all that is imported by name, but for two that bring much along and are small themselves. */
const EXTERNAL = /^(?!(?:unstorage|destr)$)[^./]/;

const { exports, bin } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const published = JSON.stringify([exports, bin]).matchAll(/dist\/([^"]+)\.js"/g);
const entries = new Set([...Array.from(published, ([, name]) => name!), ...STARTED]);

/**
 * `dist` has the modules joined in few files: a service whose process loads each of them starts half as fast. What is
 * loaded on use stays in files of its own.
 */
export default {
  cwd: ROOT,
  input: Object.fromEntries(Array.from(entries, (name) => [name, join(SRC, `${name}.ts`)])),
  platform: "node",
  external: EXTERNAL,
  preserveEntrySignatures: "strict",
  // An entry never loads the modules of another one only because there would be fewer files.
  experimental: { chunkOptimization: false },
  transform: { target: "es2023" },
  plugins: [
    compiledTemplates(),
    { name: "places", transform: (code, id) => withPlaces(code, id), renderChunk: placed },
  ],
  output: { dir: "dist", entryFileNames: "[name].js", chunkFileNames: "chunks/[name]-[hash].js" },
} satisfies BuildOptions;

/** Puts a mark in the place of each `import.meta.url`; texts that mention it stay as they are. */
function withPlaces(code: string, path: string): string | undefined {
  if (!code.includes("import.meta.url")) return undefined;
  const starts: number[] = [];
  new Visitor({
    MemberExpression: ({ start, end }) => {
      if (code.slice(start, end) === "import.meta.url") starts.push(start);
    },
  }).visit(parseSync(path, code).program);
  const mark = `${PLACE}(${JSON.stringify(relative(SRC, path).replace(/\.ts$/, ".js"))})`;
  return starts.reduceRight(
    (text, start) => text.slice(0, start) + mark + text.slice(start + "import.meta.url".length),
    code,
  );
}

/** A module knows the place where it would be if it were a file of its own, as it is in the sources. */
function placed(code: string, { fileName }: { readonly fileName: string }): string {
  return code.replaceAll(new RegExp(`${PLACE}\\("([^"]+)"\\)`, "g"), (_mark, module: string) => {
    const path = relative(dirname(fileName), module);
    return `new URL(${JSON.stringify(path.startsWith(".") ? path : `./${path}`)}, import.meta.url).href`;
  });
}
