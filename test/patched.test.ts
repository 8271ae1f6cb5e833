import { readFileSync } from "node:fs";
import { H3 } from "h3";
import { expect, test } from "vitest";

/** Packages of which private parts are used, and by which file: with another version, look there before this changes. */
const PATCHED = {
  h3: { version: "2.0.8", by: "src/core/http/near-middleware.ts" },
  "edge.js": { version: "6.5.0", by: "compile-templates.ts" },
};

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");

test.each(Object.entries(PATCHED))(
  "%s has the version whose private parts were checked",
  (name, { version, by }) => {
    const installed = JSON.parse(read(`node_modules/${name}/package.json`)) as { version: string };

    expect(installed.version, `see ${by}`).toBe(version);
    expect(read(by)).toContain(`"${name}"`);
  },
);

test("h3 gets the middleware of a request from near-middleware.ts", async () => {
  const app = new H3();
  let asked = 0;
  const original = app["~getMiddleware"].bind(app);
  app["~getMiddleware"] = (...args) => {
    asked++;
    return original(...args);
  };
  app.use("/**", () => "from the middleware");

  const answer = await app.fetch(new Request("http://localhost/"));

  expect(await answer.text()).toBe("from the middleware");
  expect(asked).toBe(1);
  expect(app["~middleware"]).toHaveLength(1);
});
