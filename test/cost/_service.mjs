// A service that counts what it does: calls of its own functions, bytes that it writes, and syncs.
import fs from "node:fs";
import { Session } from "node:inspector/promises";
import { syncBuiltinESMExports } from "node:module";
import { pathToFileURL } from "node:url";

const [dist, dataDir, control] = process.argv.slice(2);

let syncs = 0;
for (const name of ["fdatasync", "fdatasyncSync", "fsync", "fsyncSync"]) {
  const real = fs[name];
  fs[name] = (...given) => {
    syncs++;
    return real.apply(fs, given);
  };
}
/** Files whose every write is a sync. */
const synced = new Set();
const openSync = fs.openSync;
fs.openSync = (path, flags, ...given) => {
  const file = openSync(path, flags, ...given);
  if (typeof flags === "number" && flags & fs.constants.O_DSYNC) synced.add(file);
  else synced.delete(file);
  return file;
};
let bytes = 0;
const lengthOf = (data) => (ArrayBuffer.isView(data) ? data.byteLength : Buffer.byteLength(data));
for (const name of ["write", "writeSync"]) {
  const real = fs[name];
  fs[name] = (fd, data, offset, length, ...given) => {
    bytes += typeof length === "number" ? length : lengthOf(data);
    if (synced.has(fd)) syncs++;
    return real.call(fs, fd, data, offset, length, ...given);
  };
}
for (const name of ["writev", "writevSync"]) {
  const real = fs[name];
  fs[name] = (fd, parts, ...given) => {
    for (const part of parts) bytes += part.byteLength;
    return real.call(fs, fd, parts, ...given);
  };
}

syncBuiltinESMExports();

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

const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

/** Calls of functions in the package since the last time, and what was written. */
async function take() {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  let calls = 0;
  for (const { url, functions } of result)
    if (url.startsWith(pathToFileURL(dist).href))
      for (const { ranges } of functions) calls += ranges[0].count;
  const taken = { calls, bytes, syncs };
  bytes = 0;
  syncs = 0;
  return taken;
}

process.on("message", async (message) => {
  if (message === "take") process.send(await take());
  if (message === "end") {
    await service.close();
    process.exit(0);
  }
});
process.send({ url: service.url });
