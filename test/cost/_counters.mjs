// Counts what a service in this process does: calls of the functions of its package, bytes that it writes, and syncs. To
// be imported before the package, which would have functions of `node:fs` that count nothing.
import fs from "node:fs";
import { Session } from "node:inspector/promises";
import { syncBuiltinESMExports } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

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
    if (synced.has(fd)) syncs++;
    return real.call(fs, fd, parts, ...given);
  };
}

syncBuiltinESMExports();

/** Bytes that were written and syncs, since the last time. */
export function takeWrites() {
  const taken = { bytes, syncs };
  bytes = 0;
  syncs = 0;
  return taken;
}

/**
 * Starts to count calls of the functions of a package, by the folder of its build; the result gives those since the last
 * time, and how many functions of how many modules they were.
 */
export async function countCalls(dist) {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  const folder = pathToFileURL(dist).href;
  return async () => {
    const { result } = await session.post("Profiler.takePreciseCoverage");
    let calls = 0;
    let functions = 0;
    const modules = new Set();
    for (const script of result) {
      if (!script.url.startsWith(folder)) continue;
      for (const { ranges } of script.functions) {
        const { count, startOffset } = ranges[0];
        if (count === 0) continue;
        calls += count;
        functions++;
        modules.add(moduleAt(script.url, startOffset));
      }
    }
    return { calls, functions, modules: modules.size };
  };
}

/** Where the modules start that the files of a build have: a comment before each names its source. */
const starts = new Map();

/** The module that has a place of a file: the file itself where it has no others. */
function moduleAt(url, place) {
  let found = starts.get(url);
  if (!found) {
    const text = fs.readFileSync(fileURLToPath(url), "utf8");
    found = Array.from(text.matchAll(/^\/\/ (src\/.+)$/gm), ({ index, 1: name }) => ({ index, name }));
    starts.set(url, found);
  }
  return found.findLast(({ index }) => index <= place)?.name ?? url;
}
