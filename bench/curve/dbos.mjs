// The same as a DBOS workflow: arguments are the folder in which it is installed, its database, and the steps.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, systemDatabaseUrl, count] = process.argv.slice(2);
const main = createRequire(join(folder, "package.json")).resolve("@dbos-inc/dbos-sdk");
const { DBOS } = await import(pathToFileURL(main).href);
DBOS.setConfig({ name: "curve", systemDatabaseUrl, logLevel: "error" });
const curve = DBOS.registerWorkflow(
  async (steps) => {
    const times = [];
    for (let n = 0; n < steps; n++) {
      await DBOS.runStep(
        async () => {
          times.push(performance.now());
          return { n, text: "what a step gives" };
        },
        { name: "step" },
      );
    }
    return times;
  },
  { name: "curve" },
);
await DBOS.launch();
const times = await curve(Number(count));
process.send(times, async () => {
  await DBOS.shutdown();
  process.exit(0);
});
