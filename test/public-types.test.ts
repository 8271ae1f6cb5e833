import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { type BuiltPackage, buildPackage } from "./_built.ts";
import { ENTRIES, type PublicTypes, REACHED, readPublicTypes } from "./_public-types.ts";

/** Packages whose types signatures mention: the language's and Node's, and schemas, which people bring themselves. */
const MENTIONED = ["@standard-schema/spec", "@types/node", "typescript-5.9", "undici-types", "valibot"];

/** Classes that are exported as types alone: people hold instances of them and make none. */
const CLASSES = ["Html", "RemoteJob"];

describe("the types of the package", () => {
  let built: BuiltPackage;
  let types: PublicTypes;

  beforeAll(async () => {
    built = await buildPackage();
    const dist = realpathSync(join(built.folder, "dist"));
    types = readPublicTypes(
      ENTRIES.map((name) => join(dist, `${name}.d.ts`)),
      dist,
      REACHED,
    );
    return () => built[Symbol.asyncDispose]();
  });

  it("that people are handed can all be named", () => {
    expect(types.unnamed.map(({ type, by }) => `${type}, mentioned by ${by}`)).toEqual([]);
  });

  it("have one name each, from one entry", () => {
    const names = [...types.names.values()].flat();

    expect(names.length).toBeGreaterThan(150);
    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
  });

  // Each is a promise to people: to add one, take another one away.
  it("and the values are few", () => {
    expect(types.values.length, types.values.join(" ")).toBeLessThanOrEqual(80);
    expect([...types.names.values()].flat().length - types.values.length).toBeLessThanOrEqual(215);
  });

  it("of plugins' parts and of a service's options are interfaces, not classes of the service", () => {
    const classes = types.classes.filter((name) => !CLASSES.includes(name));

    expect(classes).toEqual([]);
  });

  it("are from h3 only if the name says so", () => {
    const others = types.foreign.filter(({ package: name }) => !MENTIONED.includes(name!));

    expect(others).toEqual([{ type: "H3", by: "H3_APP", package: "h3" }]);
  });
});

describe("the reader of public types", () => {
  function read(files: Record<string, string>): PublicTypes {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "types-")));
    try {
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
      return readPublicTypes([join(folder, "index.d.ts")], folder);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  const inner = `
    export interface Named { readonly deep: Unnamed }
    export interface Unnamed { readonly text: string }
    export interface Base {}
    export declare class Part extends Array<Unnamed> implements Base {
      #private;
      private hidden: Base;
      constructor(base: Base);
      get<T extends Base>(one: T): import("./inner.d.ts").Named;
    }`;

  it.each([
    ["a property's type", "export type { Named } from './inner.d.ts';", ["Unnamed by Named"]],
    ["nothing where all are exported", "export type { Named, Unnamed } from './inner.d.ts';", []],
    [
      "the results of a class, and not what it extends, takes or is bound by",
      "export type { Part, Unnamed } from './inner.d.ts';",
      ["Named by Part"],
    ],
    [
      "what a callback is handed, and not what it gives",
      "declare class Own { constructor(own: (hidden: Hidden) => Given) }\ninterface Hidden {}\ninterface Given {}\nexport { Own };",
      ["Hidden by Own"],
    ],
    [
      "no private member, and no constructor of what is only a type",
      "declare class Own { private own: Hidden; constructor(own: Hidden) }\ninterface Hidden {}\nexport type { Own };",
      [],
    ],
  ])("finds %s", (_, index, expected) => {
    const { unnamed } = read({ "index.d.ts": index, "inner.d.ts": inner });

    expect(unnamed.map(({ type, by }) => `${type} by ${by}`).sort()).toEqual(expected);
  });
});
