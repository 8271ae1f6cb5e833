import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, platform } from "node:os";
import { join } from "node:path";
import { createJiti } from "jiti";
import type { BenchRow } from "./row.ts";

const jiti = createJiti(import.meta.url, { fsCache: false });
const here = import.meta.dirname;

/** What the last run of each benchmark gave that was to be written. */
const RESULTS = join(here, "RESULTS.md");
const BIOME = join(here, "../node_modules/.bin/biome");
const TITLE = "# Results\n\n`npm run bench -- --write NAME` replaces the section of a benchmark.\n";

/** Runs the named benchmarks, or all, and prints a table of each; with `--write`, it goes to RESULTS.md, too. */
async function main(args: readonly string[]): Promise<void> {
  const isWritten = args.includes("--write");
  const wanted = args.filter((arg) => arg !== "--write");
  const all = readdirSync(here)
    .filter((file) => file.endsWith(".ts") && existsSync(join(here, file)))
    .map((file) => file.slice(0, -".ts".length))
    .filter((name) => name !== "run" && name !== "row");
  const unknown = wanted.filter((name) => !all.includes(name));
  if (unknown.length > 0)
    throw new Error(`There is no benchmark ${unknown.join(", ")}. There are: ${all.join(", ")}`);

  let missed = 0;
  for (const name of wanted.length > 0 ? wanted : all) {
    const { run } = await jiti.import<{ run?: () => Promise<BenchRow[]> }>(join(here, `${name}.ts`));
    if (!run) continue;
    console.log(`\n${name}`);
    const rows = await run();
    for (const row of rows) {
      if (row.ok === false) missed += 1;
      console.log(toLine(row));
    }
    if (isWritten) writeSection(name, rows);
  }
  console.log(missed === 0 ? "\nevery target is met" : `\n${missed} target(s) missed`);
}

function toLine({ name, value, unit, baseline, ratio, target, ok }: BenchRow): string {
  const against = baseline ? `  ${baseline.name} ${format(baseline.value)} ${unit}` : "";
  const share = ratio === undefined ? "" : `  ratio ${ratio.toFixed(2)}`;
  const goal = target === undefined ? "" : `  target ${target} ${ok ? "met" : "MISSED"}`;
  return `  ${name.padEnd(58)} ${format(value).padStart(10)} ${unit}${against}${share}${goal}`;
}

/** Replaces the section of a benchmark, or adds it. */
function writeSection(name: string, rows: readonly BenchRow[]): void {
  const before = existsSync(RESULTS) ? readFileSync(RESULTS, "utf8") : TITLE;
  const [title, ...sections] = before.split(/^(?=## )/m);
  const others = sections.filter((section) => !section.startsWith(`## ${name}\n`));
  const table = rows.map(({ name: what, value, unit, baseline, ratio, target }) =>
    toCells([
      ...[what, `${format(value)} ${unit}`, baseline ? `${baseline.name}: ${format(baseline.value)}` : ""],
      ...[ratio === undefined ? "" : ratio.toFixed(2), target ?? ""],
    ]),
  );
  const machine = `Node ${process.version}, ${cpus().length} processors, ${platform()}, ${new Date().toISOString().slice(0, 10)}.`;
  const head = [toCells(["What", "Here", "Beside", "Ratio", "Target"]), "| --- | --- | --- | --- | --- |"];
  const own = `## ${name}\n\n${machine}\n\n${[...head, ...table].join("\n")}\n`;
  const all = [...others.map((section) => section.trimEnd().concat("\n")), own].sort();
  writeFileSync(RESULTS, [title!.trimEnd().concat("\n"), ...all].join("\n"));
  execFileSync(BIOME, ["format", "--write", RESULTS], { stdio: "ignore" });
}

function toCells(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

function format(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

await main(process.argv.slice(2));
