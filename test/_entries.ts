import { readFileSync } from "node:fs";

/** What package.json exports. */
export const EXPORTS = (
  JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    exports: Record<string, { types: string; default: string } | string>;
  }
).exports;

/** The names under which programs import parts of the package. */
export function entriesOf(): string[] {
  return Object.keys(EXPORTS).filter((entry) => entry !== "./package.json");
}

/** What an entry exports at run time. */
export async function loadEntry(entry: string): Promise<Record<string, unknown>> {
  const file = entry === "." ? "index" : entry.slice(2);
  const [name, inside] = file.split("/");
  const loaded: unknown = await (inside
    ? import(`../src/${name}/${inside}.ts`)
    : import(`../src/${name}.ts`));
  return loaded as Record<string, unknown>;
}
