// @long
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript-5.9";
import { beforeAll, describe, expect, it } from "vitest";
import { buildPackage } from "./_built.ts";
import { ENTRIES, type PublicTypes, REACHED, readPublicTypes } from "./_public-types.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Packages that programs install beside this one. */
const INSTALLED = ["@standard-schema", "@types", "undici-types", "valibot", "h3", "react", "csstype", "zod"];

/** A folder of somebody else's in which the package is installed: only its entries can be imported there. */
async function installPackage(): Promise<string> {
  await using built = await buildPackage();
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "declarations-")));
  const target = join(folder, "node_modules/agent-control-service");
  mkdirSync(target, { recursive: true });
  cpSync(join(built.folder, "package.json"), join(target, "package.json"));
  const dist = realpathSync(join(built.folder, "dist"));
  for (const name of readdirSync(dist, { recursive: true, encoding: "utf8" }))
    if (name.endsWith(".d.ts")) cpSync(join(dist, name), join(target, "dist", name));
  for (const name of INSTALLED)
    symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }\n');
  return folder;
}

/** What TypeScript says of types that the declarations of these programs cannot name. */
function unnamedIn(folder: string, programs: Readonly<Record<string, string>>): string[] {
  const paths = Object.entries(programs).map(([name, text]) => {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  });
  const program = ts.createProgram(paths, {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2023,
    lib: ["lib.es2023.d.ts", "lib.esnext.disposable.d.ts"],
    types: ["node"],
    strict: true,
    skipLibCheck: true,
    rewriteRelativeImportExtensions: true,
    declaration: true,
    emitDeclarationOnly: true,
  });
  return paths.flatMap((path) =>
    program.getDeclarationDiagnostics(program.getSourceFile(path)).map(({ messageText, start, file }) => {
      const { line } = file!.getLineAndCharacterOfPosition(start!);
      const text = file!.text.split("\n")[line];
      return `${path.slice(folder.length + 1)}: ${text}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`;
    }),
  );
}

/** The programs of the pages; what each declares is exported, so that its declarations have the type of it. */
function programsOfPages(): Record<string, string> {
  const pages = ["README.md", ...readdirSync(join(ROOT, "docs")).map((name) => `docs/${name}`)];
  const programs: Record<string, string> = {};
  for (const page of pages.filter((name) => name.endsWith(".md"))) {
    const blocks = readFileSync(join(ROOT, page), "utf8").matchAll(/^```ts\n([\s\S]*?)\n```$/gm);
    for (const [at, [, block]] of [...blocks].entries()) {
      const exported = block!.replace(/^(?=(?:const|async function|function|class) )/gm, "export ");
      programs[`${page}-${at}.ts`] = `${exported}\nexport {};\n`;
    }
  }
  return programs;
}

function programsOfExamples(): Record<string, string> {
  const names = readdirSync(join(ROOT, "examples"), { recursive: true, encoding: "utf8" });
  const programs = names.filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"));
  return Object.fromEntries(
    programs.map((name) => [`examples/${name}`, readFileSync(join(ROOT, "examples", name), "utf8")]),
  );
}

/** Programs, one for each entry, that export what each of its functions gives, and each member of each of these types. */
function programsOfEntries({ names, values, handed }: PublicTypes): Record<string, string> {
  const programs = [...names].map(([file, exported], at) => {
    const entry = file.slice(file.indexOf("/dist/") + 6, -".d.ts".length);
    const from = entry === "index" ? "agent-control-service" : `agent-control-service/${entry}`;
    const results = exported
      .filter((name) => values.includes(name))
      .map((name) => `export const result_${name} = (...given: never) => entry.${name}(...given);`);
    const members = handed
      .filter((type) => type.entry === file)
      .flatMap(({ name, parameters, members }) => {
        const type = parameters === 0 ? name : `${name}<${Array(parameters).fill("any").join(", ")}>`;
        return members.map(({ name: member, isCalled }) => {
          const id = `${name}_${member.replace(/\W/g, "_")}`;
          const read = `value[${JSON.stringify(member)}]`;
          return isCalled
            ? `export const result_${id} = (value: entry.${type}, ...given: never) => ${read}!(...given);`
            : `export const member_${id} = (value: entry.${type}) => ${read};`;
        });
      });
    return [`entry-${at}.ts`, [`import * as entry from "${from}";`, ...results, ...members].join("\n")];
  });
  return Object.fromEntries(programs);
}

describe("the declarations of somebody's program", () => {
  let folder: string;
  let types: PublicTypes;

  beforeAll(async () => {
    folder = await installPackage();
    const dist = join(folder, "node_modules/agent-control-service/dist");
    types = readPublicTypes(
      ENTRIES.map((name) => join(dist, `${name}.d.ts`)),
      dist,
      REACHED,
    );
    return () => rmSync(folder, { recursive: true });
  });

  it("name what the programs of the pages and the examples export", () => {
    const programs = { ...programsOfPages(), ...programsOfExamples() };

    expect(Object.keys(programs).length).toBeGreaterThan(100);
    expect(unnamedIn(folder, programs)).toEqual([]);
  });

  it("name what every function gives, and every member of it", () => {
    const programs = programsOfEntries(types);

    expect(Object.values(programs).join("\n").split("\n").length).toBeGreaterThan(500);
    expect(unnamedIn(folder, programs)).toEqual([]);
  });

  it("cannot name a type that no entry of its package exports", () => {
    const other = join(folder, "node_modules/other");
    mkdirSync(other);
    writeFileSync(
      join(other, "package.json"),
      '{ "type": "module", "exports": { "types": "./index.d.ts" } }',
    );
    writeFileSync(join(other, "inner.d.ts"), "export interface Hidden { readonly text: string }\n");
    writeFileSync(
      join(other, "index.d.ts"),
      'export declare function make(): import("./inner.js").Hidden;\n',
    );

    const found = unnamedIn(folder, {
      "own.ts": 'import { make } from "other";\nexport const made = make();\n',
    });

    expect(found).toEqual([expect.stringMatching(/^own\.ts: .*cannot be named/)]);
  });
});
