import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

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
  for (const [name, files] of Object.entries(FROM_PACKAGES))
    for (const [from, to] of Object.entries(files))
      cpSync(join(ROOT, "node_modules", name, from), join(folder, to));
}
