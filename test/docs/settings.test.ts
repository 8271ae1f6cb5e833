import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { resolveOptions } from "../../src/core/service/options.ts";
import { greeter } from "../_setup.ts";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

it("the page of settings names every option and every variable", () => {
  const page = read("docs/settings.md");
  const {
    id: _made,
    controller: _own,
    place: _ownToo,
    release: _ofDeployments,
    databaseUrl: _variable,
    leaseTimes: _ofTorture,
    ...options
  } = resolveOptions({ agents: [greeter] }, {});
  const variables = new Set(read("src/core/service/options.ts").match(/\bSERVICE_[A-Z_]*[A-Z]\b/g));

  const names = [...Object.keys(options), ...variables];

  expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});
