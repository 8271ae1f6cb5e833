// Reads the results of a run of the tests, and of a second run of files that failed in it.
//   node .ci/summary.mjs again <results>            prints the files that are to be run a second time
//   node .ci/summary.mjs count <results> [<second>] prints what passed, failed and was skipped
import { existsSync, readFileSync } from "node:fs";
import { relative } from "node:path";

/** These try something else each time, and look for losses: one failure is one too many. */
const seeksLosses = (path) => /^\/\/ @losses$/m.test(readFileSync(path, "utf8").slice(0, 1000));

/** With more than a few, it is not a busy machine. */
const MOST = 4;

const [command, ...paths] = process.argv.slice(2);
const [first, second] = paths.filter(existsSync).map((path) => JSON.parse(readFileSync(path, "utf8")));
const failed = (results) => results.testResults.filter(({ status }) => status === "failed");
const name = ({ name: path }) => relative(process.cwd(), path);

if (command === "again") {
  const files = failed(first);
  // A file that cannot be loaded holds no tests.
  const mayPass = files.every((file) => file.assertionResults.length > 0 && !seeksLosses(file.name));
  if (files.length <= MOST && mayPass) for (const file of files) console.log(name(file));
} else {
  const { numPassedTests, numPendingTests, numTodoTests } = first;
  const titles = (results) =>
    failed(results).flatMap((file) => {
      const tests = file.assertionResults.filter(({ status }) => status === "failed");
      return tests.length > 0 ? tests.map(({ fullName }) => `${name(file)} > ${fullName}`) : [name(file)];
    });
  const before = titles(first);
  const after = second ? titles(second) : before;
  const repaired = second ? before.filter((title) => !after.includes(title)) : [];
  for (const title of repaired) console.log(`FLAKY, passed only when it was repeated alone: ${title}`);
  console.log(
    `${numPassedTests + repaired.length} passed, ${after.length} failed, ${numPendingTests + numTodoTests} skipped`,
  );
}
