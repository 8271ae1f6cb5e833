import { readFileSync } from "node:fs";
import { createServer, defineAgent, events } from "../../src/index.ts";
import { workThrough } from "./_work.ts";

/** A service in a process of its own, to be killed: works jobs through, then says so and waits. */
const { dataDir, account, jobs, updates } = JSON.parse(readFileSync(0, "utf8"));

const agent = defineAgent({ name: "Greeter", version: "1.0.0", methods: { job_start: { run: () => null } } });
const service = createServer({
  agents: [agent],
  apiKey: "a-key-for-this-test",
  account,
  dataDir,
  port: 0,
  host: "127.0.0.1",
  logTo: () => {},
  plugins: [
    events({ timeout: 1, backoff: { initial: 0.05, max: 0.3 }, breaker: { initial: 0.05, max: 0.3 } }),
  ],
});
await service.listen();
for (let n = 0; n < jobs; n++) await workThrough(service, `job-${n}`, { updates });
process.stdout.write("worked\n");
