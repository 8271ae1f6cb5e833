// A service that counts what it does.
import { pathToFileURL } from "node:url";
import { countCalls, takeWrites } from "./_counters.mjs";

const [dist, dataDir, control] = process.argv.slice(2);

const { createServer, defineAgent } = await import(pathToFileURL(`${dist}/index.js`).href);
const agent = defineAgent({
  name: "Worker",
  version: "1.0.0",
  methods: { job_start: { run: async ({ job }) => job.step("one", () => "done") } },
});
const account = control && { workspace_id: "w", api_key: "key-of-the-account", api_url: control };
const service = createServer({
  agents: [agent],
  apiKey: "key-of-this-test",
  dataDir,
  port: 0,
  logTo: () => {},
  ...(account && { account }),
});
await service.listen();
const takeCalls = await countCalls(dist);

process.on("message", async (message) => {
  if (message === "take") process.send({ ...(await takeCalls()), ...takeWrites() });
  if (message === "end") {
    await service.close();
    process.exit(0);
  }
});
process.send({ url: service.url });
