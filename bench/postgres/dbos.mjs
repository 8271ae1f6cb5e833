// The same job as a DBOS workflow of three steps, behind the same kind of HTTP route: arguments are the folder in which
// DBOS is installed, and its database.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { H3, readBody, serve } from "h3";

const [folder, systemDatabaseUrl] = process.argv.slice(2);
const main = createRequire(join(folder, "package.json")).resolve("@dbos-inc/dbos-sdk");
const { DBOS } = await import(pathToFileURL(main).href);
DBOS.setConfig({ name: "three", systemDatabaseUrl, logLevel: "error" });
const three = DBOS.registerWorkflow(
  async (n) => {
    const one = await DBOS.runStep(async () => n + 1, { name: "one" });
    const two = await DBOS.runStep(async () => one * 2, { name: "two" });
    const result = await DBOS.runStep(async () => two - 1, { name: "three" });
    return { result };
  },
  { name: "three" },
);
await DBOS.launch();

const app = new H3({ silent: true });
app.post("/jobs", async (event) => {
  const { id, n } = await readBody(event);
  const handle = await DBOS.startWorkflow(three, { workflowID: id })(n);
  return { id, result: await handle.getResult() };
});
const server = serve(app, { port: 0, hostname: "127.0.0.1", silent: true, gracefulShutdown: false });
await server.ready();

process.on("message", async (message) => {
  if (message !== "end") return;
  await DBOS.shutdown();
  process.exit(0);
});
process.send({ url: server.url });
