import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { minifySync } from "rolldown/utils";

const ROOT = fileURLToPath(new URL(".", import.meta.url));

/** Files of other packages that pages use, with their licenses: by package, their names there and in the templates. */
const FROM_PACKAGES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "swagger-ui-dist": {
    "swagger-ui-bundle.js": "public/swagger/swagger-ui-bundle.js",
    "swagger-ui-bundle.js.LICENSE.txt": "public/swagger/swagger-ui-bundle.js.LICENSE.txt",
    "swagger-ui.css": "public/swagger/swagger-ui.css",
    LICENSE: "public/swagger/LICENSE",
    NOTICE: "public/swagger/NOTICE",
  },
  "htmx.org": {
    "dist/htmx.min.js": "public/admin/htmx.min.js",
    LICENSE: "public/admin/htmx.LICENSE",
  },
  // Part of the modules.
  unstorage: { LICENSE: "../licenses/unstorage.LICENSE" },
  destr: { LICENSE: "../licenses/destr.LICENSE" },
  idiomorph: {
    "dist/idiomorph-ext.min.js": "public/admin/idiomorph-ext.min.js",
    LICENSE: "public/admin/idiomorph.LICENSE",
  },
};

/** Writes what is read from files: of `src/templates` what is not compiled, and assets of other packages. */
export function writeTemplates(folder: string): void {
  const filter = (path: string) => !path.endsWith(".edge");
  cpSync(join(ROOT, "src/templates"), folder, { recursive: true, filter });
  // Folders of which all was compiled.
  rmSync(join(folder, "admin"), { recursive: true });
  shrink(join(folder, "public/admin"));
  for (const [name, files] of Object.entries(FROM_PACKAGES))
    for (const [from, to] of Object.entries(files))
      cpSync(join(ROOT, "node_modules", name, from), join(folder, to));
}

/** Makes our own scripts and style sheets smaller: pages load them before anything else. */
function shrink(folder: string): void {
  for (const file of readdirSync(folder)) {
    const path = join(folder, file);
    if (file.endsWith(".js")) {
      const { code, errors } = minifySync(file, readFileSync(path, "utf8"));
      if (errors.length > 0) throw new Error(`${file} cannot be made smaller: ${errors[0]!.message}`);
      writeFileSync(path, code);
    } else if (file.endsWith(".css")) writeFileSync(path, shrinkCss(readFileSync(path, "utf8")));
  }
}

/** Without comments and the blanks that say nothing. */
function shrinkCss(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/\s+/g, " ")
    .replace(/ ?([{};]) ?/g, "$1")
    .replace(/(?<=[{;][\w-]+): /g, ":")
    .replace(/, | ?> ?/g, (mark) => mark.trim())
    .replaceAll(";}", "}")
    .trim();
}
