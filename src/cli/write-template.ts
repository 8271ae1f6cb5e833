import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { CliError } from "./errors.ts";

/**
 * Writes folders of template files with `{{name}}` filled in; a file replaces that of an earlier folder. A leading `_` is removed from a file's name:
 * npm would treat the real names specially. Refuses to overwrite an existing file.
 */
export async function writeTemplate(
  templates: readonly URL[],
  root: string,
  values: Readonly<Record<string, string>>,
): Promise<void> {
  const byPlace = new Map<string, { source: string; place: string; target: string }>();
  for (const from of templates.map((one) => fileURLToPath(one))) {
    const entries = await readdir(from, { recursive: true, withFileTypes: true });
    for (const entry of entries.filter((one) => one.isFile())) {
      const source = join(entry.parentPath, entry.name);
      const name = entry.name.replace(/^_(?=gitignore)/, ".").replace(/^_/, "");
      const place = join(dirname(relative(from, source)), name);
      byPlace.set(place, { source, place, target: join(root, place) });
    }
  }
  const files = [...byPlace.values()];
  const taken = files.filter(({ target }) => existsSync(target)).map(({ place }) => place);
  if (taken.length > 0) {
    throw new CliError(`Files already exist: ${taken.join(", ")}`, {
      detail: "Choose an empty folder: svc init my-service",
    });
  }
  for (const { source, target } of files) {
    const text = await readFile(source, "utf8");
    await mkdir(dirname(target), { recursive: true });
    await writeFile(
      target,
      text.replace(/\{\{(\w+)\}\}/g, (whole, name: string) => values[name] ?? whole),
    );
  }
}
