// What no replay can do without: reads the lines of the journal, parses them, and gives each to a loop that awaits it.
// Says how many milliseconds that took.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [folder] = process.argv.slice(2);
const begun = performance.now();
const results = [];
for (const name of readdirSync(folder).filter((one) => one.startsWith("journal."))) {
  for (const line of readFileSync(join(folder, name), "utf8").split("\n")) {
    if (line.startsWith("{")) results.push(JSON.parse(line).d?.result);
  }
}
let given = 0;
for (const result of results) if ((await result) !== undefined) given++;
process.send({ took: performance.now() - begun, given }, () => process.exit(0));
