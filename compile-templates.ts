import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Edge } from "edge.js";

const TEMPLATES = new URL("src/templates/", import.meta.url);
/** What a module says in whose place the templates of a folder are put. */
const PLACE = /\bcompiledTemplates\("(\w+)"\)/g;

export interface Plugin {
  readonly name: string;
  transform(this: { addWatchFile(path: string): void }, code: string, id: string): string | undefined;
}

/** For rolldown and vite: puts the compiled templates of `src/templates/NAME` where a module calls `compiledTemplates` with that name. */
export function compiledTemplates(): Plugin {
  return {
    name: "compiled-templates",
    transform(code, id) {
      if (!id.endsWith(".ts") || !code.includes("compiledTemplates(")) return undefined;
      return code.replaceAll(PLACE, (_place, name: string) => {
        const folder = new URL(`${name}/`, TEMPLATES);
        for (const file of templatesIn(folder)) this.addWatchFile(fileURLToPath(new URL(file, folder)));
        return compile(folder);
      });
    },
  };
}

/** An object of functions: what `TemplateEngine` renders. */
function compile(folder: URL): string {
  const edge = Edge.create({ cache: false });
  edge.mount(folder);
  // Makes tags of the components.
  edge.createRenderer();
  const functions = new Map<string, string>();
  const add = (name: string, locals: readonly string[]): void => {
    const key = [name, ...locals].join();
    if (functions.has(key)) return;
    functions.set(key, "");
    const text = toFunction(edge.compiler.compile(name, [...locals]).toString(), name);
    functions.set(key, text);
    // A part that is included inside a loop has the variables of the loop as arguments.
    for (const [, part = "", names = ""] of text.matchAll(/template\.compilePartial\('([^']+)'([^)]*)\)/g))
      add(
        part,
        Array.from(names.matchAll(/"([^"]+)"/g), ([, local]) => local!),
      );
  };
  for (const file of templatesIn(folder)) add(file.slice(0, -".edge".length), []);
  return `{${[...functions].map(([key, text]) => `${JSON.stringify(key)}: ${text}`).join(",\n")}}`;
}

function templatesIn(folder: URL): string[] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return files.filter((file) => file.endsWith(".edge")).sort();
}

/** What `TemplateEngine` has of the calls that compiled templates make. */
const CALLS = ["escape", "loop", "compilePartial", "compileComponent", "getComponentState"];

/** Without the places in files, which are not published, and with texts that follow each other in one piece. */
function toFunction(compiled: string, name: string): string {
  const text = compiled
    .replaceAll(/^(?:let )?\$(?:lineNumber|filename) = .*;\n/gm, "")
    .replaceAll(/^try \{\n/gm, "")
    .replaceAll(/^\} catch \(error\) \{\ntemplate\.reThrow\(error, \$filename, \$lineNumber\);\n\}\n/gm, "")
    .replaceAll("}, { filename: $filename, line: $lineNumber, col: 0 })", "})")
    .replaceAll(/(?:^\w+ \+= "(?:[^"\\]|\\.)*";\n)+/gm, merged)
    .replace(/^function anonymous/, "function");
  const calls = [...text.matchAll(/\btemplate\.(\w+)/g)].map(([, call]) => call!);
  const unknown = [
    ...calls.filter((call) => !CALLS.includes(call)),
    ...(text.match(/\$lineNumber|\$filename/g) ?? []),
  ];
  if (unknown.length > 0)
    throw new Error(`The template ${name} needs ${unknown[0]}, which TemplateEngine does not have`);
  return text;
}

function merged(lines: string): string {
  const [, variable] = /^(\w+)/.exec(lines)!;
  const texts = [...lines.matchAll(/^\w+ \+= (".*");$/gm)].map(([, text]) => JSON.parse(text!) as string);
  const text = texts.join("");
  return text === "" ? "" : `${variable} += ${JSON.stringify(text)};\n`;
}
