import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { resolveOptions } from "../../src/core/service/options.ts";
import { describeSettings, SETTINGS } from "../../src/core/service/settings.ts";
import { greeter } from "../_setup.ts";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

/** The cells of a table, without the spaces that align its columns. */
const cellsOf = (text: string) =>
  text
    .split("\n")
    .filter((line) => line.startsWith("|") && !/^[|\s-]+$/.test(line))
    .map((line) => line.split(/(?<!\\)\|/).map((cell) => cell.trim()));

it("the page of settings is what the table of options says", () => {
  expect(cellsOf(read("docs/settings.md"))).toEqual(cellsOf(describeSettings()));
});

it("the table has each option, and each variable that is read", () => {
  const {
    id: _made,
    controller: _own,
    place: _ownToo,
    release: _ofDeploy,
    databaseUrl: _variable,
    databaseSchema: _variableToo,
    leaseTimes: _ofTorture,
    ownClock: _madeToo,
    ...options
  } = resolveOptions({ agents: [greeter] }, {});
  const variables = read("src/core/service/options.ts").match(/\bSERVICE_[A-Z_]*[A-Z]\b/g) ?? [];

  expect(Object.keys(SETTINGS).sort()).toEqual(Object.keys(options).sort());
  expect([...new Set(variables)].filter((name) => !describeSettings().includes(`\`${name}\``))).toEqual([]);
});
