// The service under measure on a database: jobs of one step and one case, kept for some time, started without a pause.
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RUNNER, STORE } from "../../dist/plugin.js";
import { postgres } from "../../dist/postgres.js";
import { makeService, startJobs, tell } from "../measured/service.mjs";
import { worker } from "./worker.mjs";

const [url, count, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const CALLERS = 64;
const dataDir = mkdtempSync(join(tmpdir(), "bench-retention-"));
process.on("exit", () => rmSync(dataDir, { recursive: true, force: true }));

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const service = makeService({
  agents: [worker],
  ...{ dataDir, store: postgres({ url }) },
  rsaPrivateKey: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  maxConcurrentJobs: CALLERS,
  retention: { completed: seconds },
});
await service.ready();
const [runner, store] = [service.get(RUNNER), service.get(STORE)];
const each = async (id) => {
  const { status } = await runner.ended(id, 60_000);
  if (status !== "completed") throw new Error(`${id} is ${status}`);
};
const begun = performance.now();
await startJobs(service, { agent: "worker", count, callers: CALLERS, each });
const took = (performance.now() - begun) / 1000;
tell(service, { rate: count / took, removed: count - (await store.stats()).tables.Job });
