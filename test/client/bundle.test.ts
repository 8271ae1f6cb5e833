import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { readSources } from "../_sources.ts";
import { bundle } from "./_bundle.ts";

/** Bytes that the client may add to a page, minified and compressed. */
const MOST = 6 * 1024;
const OF_NODE = /\b(?:process\.|Buffer\b|require\()|from ?["']node:/;

it("the client in a page is below 6 kB and needs nothing of Node", async () => {
  const code = await bundle(`export * from "agent-control-service/client";`);

  expect(code).toContain("JobFailedError");
  expect(gzipSync(code).length).toBeLessThan(MOST);
  expect(code).not.toMatch(OF_NODE);
  expect(code).not.toMatch(/from ?["']/);
});

it("the hooks need React and the client only", async () => {
  const code = await bundle(`export * from "agent-control-service/client/react";`, { external: ["react"] });

  expect([...code.matchAll(/from ?["']([^"']+)/g)].map(([, name]) => name)).toEqual(["react"]);
  expect(gzipSync(code).length).toBeLessThan(MOST);
  expect(code).not.toMatch(OF_NODE);
});

it("the client imports only types from the rest of the package, and React in one file", () => {
  const loaded = readSources("src")
    .filter(({ path }) => path.startsWith("src/client"))
    .flatMap(({ path, imports }) =>
      imports
        .filter(({ typeOnly, target }) => !typeOnly && !target.startsWith("src/client"))
        .map(({ target }) => `${path} → ${target}`),
    );

  expect(loaded).toEqual(["src/client/react.ts → react"]);
});
