// An empty service: reports when it listens, and how much memory it uses when idle.
import { createServer, defineAgent } from "../../dist/index.js";

const agent = defineAgent({ name: "Idle", version: "1.0.0", methods: { job_start: { run: () => "done" } } });
const [dataDir] = process.argv.slice(2);
const service = createServer({
  agents: [agent],
  apiKey: "key-of-this-benchmark",
  dataDir,
  port: 0,
  logTo: () => {},
});
await service.listen();
process.send({ listening: true });
setTimeout(() => {
  process.send({ rss: process.memoryUsage().rss });
  void service.close();
}, 2000);
