import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** A file of the package's sources, with what it imports. */
export interface SourceFile {
  /** From the root of the package: `src/core/service/service.ts`. */
  readonly path: string;
  readonly text: string;
  readonly imports: readonly SourceImport[];
}

export interface SourceImport {
  /** A path from the root of the package, or the name of a package. */
  readonly target: string;
  readonly specifier: string;
  /** Whether it is there at type-check time only. */
  readonly typeOnly: boolean;
  /** Whether it is an `import()` call. */
  readonly lazy: boolean;
}

const STATIC = /^(import|export)\s+(type\s)?[^;"']*?\bfrom\s+["']([^"']+)["']|^import\s+["']([^"']+)["']/gm;
const LAZY = /\bimport\(\s*["']([^"']+)["']\s*\)/g;

/** Reads all TypeScript files under a folder, except those that projects are created from. */
export function readSources(folder: string): SourceFile[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.startsWith("templates/"))
    .map((name) => {
      const path = join(folder, name).replaceAll("\\", "/");
      const text = readFileSync(join(ROOT, path), "utf8");
      return { path, text, imports: readImports(path, text) };
    });
}

function readImports(path: string, text: string): SourceImport[] {
  const toImport = (specifier: string, typeOnly: boolean, lazy: boolean): SourceImport => ({
    target: specifier.startsWith(".") ? relative(ROOT, resolve(ROOT, dirname(path), specifier)) : specifier,
    specifier,
    typeOnly,
    lazy,
  });
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "");
  return [
    ...[...code.matchAll(STATIC)].map(([, , type, from, bare]) =>
      toImport((from ?? bare)!, Boolean(type), false),
    ),
    ...[...code.matchAll(LAZY)].map(([, specifier]) => toImport(specifier!, false, true)),
  ];
}

/** The package that a specifier names: `@scope/name` or `name`, without what follows. */
export function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}
