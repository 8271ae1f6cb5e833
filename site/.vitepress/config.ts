import { defineConfig } from "vitepress";
import { ENTRIES, GROUPS, type Page } from "../pages.ts";

const toLink = ({ target, title }: Pick<Page, "target" | "title">) => ({
  text: title,
  link: `/${target.replace(/(^|\/)index\.md$/, "$1").replace(/\.md$/, "")}`,
});

/** The folders come from build.ts, which gathers the pages. */
export default defineConfig({
  title: "agent-control-service",
  description: "Run AI agents as a service of your own.",
  lang: "en-US",
  base: process.env.DOCS_BASE ?? "/",
  srcDir: process.env.DOCS_PAGES,
  outDir: process.env.DOCS_OUT,
  cacheDir: process.env.DOCS_CACHE,
  // Copies for language models.
  srcExclude: ["public/**"],
  metaChunk: true,
  markdown: { lineNumbers: false },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Guide", link: "/guide" },
      { text: "HTTP API", link: "/api" },
      { text: "Reference", link: "/reference/" },
    ],
    sidebar: [
      ...GROUPS.map(({ title, pages }) => ({ text: title, items: pages.map(toLink) })),
      {
        text: "Reference",
        items: ENTRIES.map(({ name, file }) => toLink({ target: `reference/${file}.md`, title: name })),
      },
    ],
  },
});
