import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createJiti } from "jiti";
import type { BenchRow } from "./row.ts";

const jiti = createJiti(import.meta.url, { fsCache: false });
const here = import.meta.dirname;

/** Runs the named benchmarks, or all, and prints a table of each. */
async function main(wanted: readonly string[]): Promise<void> {
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
    for (const row of await run()) {
      if (row.ok === false) missed += 1;
      console.log(toLine(row));
    }
  }
  console.log(missed === 0 ? "\nevery target is met" : `\n${missed} target(s) missed`);
}

function toLine({ name, value, unit, baseline, ratio, target, ok }: BenchRow): string {
  const against = baseline ? `  ${baseline.name} ${format(baseline.value)} ${unit}` : "";
  const share = ratio === undefined ? "" : `  ratio ${ratio.toFixed(2)}`;
  const goal = target === undefined ? "" : `  target ${target} ${ok ? "met" : "MISSED"}`;
  return `  ${name.padEnd(58)} ${format(value).padStart(10)} ${unit}${against}${share}${goal}`;
}

function format(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

await main(process.argv.slice(2));
