import { existsSync, statSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { checkSite } from "./check-site.ts";
import { type Target, turnLinks } from "./links.ts";
import { llmsText } from "./llms-text.ts";
import { GROUPS, type Page } from "./pages.ts";
import { writeReference } from "./reference.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SITE = join(ROOT, "site");
const PAGES = GROUPS.flatMap((group) => group.pages);

/**
 * Builds the site: `jiti site/build.ts [folder]`. The Markdown stays as a code host shows it; its links become those of
 * the site here. A link, a heading or an image that is not there fails the build, as does a request to another site.
 */
async function build(outDir: string): Promise<void> {
  const started = Date.now();
  const work = await mkdtemp(join(SITE, ".work-"));
  try {
    const folder = join(work, "pages");
    await refuseUnlisted();
    const texts: string[] = [];
    for (const page of PAGES) texts.push(await gather(page, folder));
    for (const [name, text] of Object.entries(llmsText(PAGES, texts)))
      await writeInto(join(folder, "public", name), text);
    await writeReference(ROOT, join(folder, "reference"));

    Object.assign(process.env, { DOCS_PAGES: folder, DOCS_OUT: outDir, DOCS_CACHE: join(work, "cache") });
    await rm(outDir, { recursive: true, force: true });
    const vitepress = await import("vitepress");
    await vitepress.build(SITE);
    const problems = await checkSite(outDir);
    if (problems.length > 0) throw new Error(`The site has problems:\n  ${problems.join("\n  ")}`);
    console.log(`${outDir}: ${texts.length} pages and the reference, in ${(Date.now() - started) / 1000} s`);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** A page that is not listed is a page that nobody finds. */
async function refuseUnlisted(): Promise<void> {
  const sources = new Set(PAGES.map((page) => page.source));
  const docs = (await readdir(join(ROOT, "docs"))).filter((name) => name.endsWith(".md"));
  const examples = await readdir(join(ROOT, "examples"), { withFileTypes: true });
  const expected = [
    ...docs.map((name) => `docs/${name}`),
    ...examples.filter((each) => each.isDirectory()).map(({ name }) => `examples/${name}/README.md`),
  ];
  const missing = expected.filter((source) => !sources.has(source));
  if (missing.length > 0) throw new Error(`site/pages.ts does not list ${missing.join(", ")}`);
}

/** Writes a page, once to be built and once as Markdown, with the files that it links to; resolves with its text. */
async function gather(page: Page, folder: string): Promise<string> {
  const { text, files } = turnLinks(await readFile(join(ROOT, page.source), "utf8"), page, find);
  await writeInto(join(folder, page.target), text);
  await writeInto(join(folder, "public", page.target), text);
  for (const [file, copy] of files) {
    await mkdir(dirname(join(folder, "public", copy)), { recursive: true });
    await cp(join(ROOT, file), join(folder, "public", copy));
  }
  return text;
}

function find(path: string): Target | undefined {
  const page = PAGES.find(({ source }) => source === path || source === `${path}/README.md`);
  if (page) return { page };
  const file = join(ROOT, path);
  return existsSync(file) && statSync(file).isFile() ? { file: path } : undefined;
}

async function writeInto(file: string, text: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}

await build(process.argv[2] ?? join(SITE, "dist"));
