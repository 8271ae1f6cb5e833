import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { expect, it } from "vitest";
import { findBuild } from "../_built.ts";
import { readSources } from "../_sources.ts";

/** Bytes that the client may add to a page, minified and compressed. */
const MOST = 6 * 1024;

/** An entry as a page gets it: for browsers, minified, in one file. */
async function bundle(entry: string, external: string[] = []): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "bundle-"));
  try {
    await build({
      root: await findBuild(),
      configFile: false,
      publicDir: false,
      logLevel: "error",
      build: {
        outDir: folder,
        emptyOutDir: false,
        target: "es2022",
        minify: true,
        lib: { entry: join(await findBuild(), "dist", entry), formats: ["es"], fileName: () => "bundle.js" },
        rollupOptions: { external },
      },
    });
    return await readFile(join(folder, "bundle.js"), "utf8");
  } finally {
    await rm(folder, { recursive: true });
  }
}

it("the client in a page is below 6 kB and needs nothing of Node", async () => {
  const code = await bundle("client.js");

  expect(code).toContain("JobFailedError");
  expect(gzipSync(code).length).toBeLessThan(MOST);
  expect(code).not.toMatch(/\b(?:process\.|Buffer\b|require\(|from ?["'])/);
});

it("the client imports types only from the rest of the package", () => {
  const loaded = readSources("src")
    .filter(({ path }) => path.startsWith("src/client"))
    .flatMap(({ path, imports }) =>
      imports
        .filter(({ typeOnly, target }) => !typeOnly && !target.startsWith("src/client"))
        .map(({ target }) => `${path} → ${target}`),
    );

  expect(loaded).toEqual([]);
});
