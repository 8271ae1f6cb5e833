import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Application, LogLevel } from "typedoc";
import { ENTRIES } from "./pages.ts";

/** Writes one page for each entry of the package, made from the TSDoc in its built types. */
export async function writeReference(root: string, folder: string): Promise<void> {
  const app = await Application.bootstrapWithPlugins({
    entryPoints: ENTRIES.map(({ file }) => join(root, `dist/${file}.d.ts`)),
    tsconfig: join(root, "site/tsconfig.json"),
    plugin: ["typedoc-plugin-markdown"],
    logLevel: LogLevel.Error,
    // `npm run check` has done so, with a newer compiler.
    skipErrorChecking: true,
    readme: "none",
    groupOrder: ["Functions", "Variables", "Interfaces", "Type Aliases", "Classes"],
    disableSources: true,
    excludeExternals: true,
    excludePrivate: true,
    // Options of the plugin are not among TypeDoc's own.
    ...({
      outputs: [{ name: "markdown", path: folder }],
      outputFileStrategy: "modules",
      hidePageHeader: true,
      hideBreadcrumbs: true,
      useHTMLAnchors: true,
      useCodeBlocks: true,
      sanitizeComments: true,
      parametersFormat: "table",
      interfacePropertiesFormat: "table",
      typeAliasPropertiesFormat: "table",
    } as object),
  });
  const project = await app.convert();
  if (!project || app.logger.hasErrors()) throw new Error("The reference could not be made");
  await app.generateOutputs(project);
  // The plugin's own list of the entries; the sidebar has them.
  await rm(join(folder, "README.md"));
  for (const { name, file } of ENTRIES) {
    const page = join(folder, `${file}.md`);
    await writeFile(page, (await readFile(page, "utf8")).replace(/^# .*/, `# ${name}`));
  }
}
