// Ends this process with SIGKILL at call `KILL_AT` of those that change a disk or send something, counted from 1: before
// it, or with `KILL_AFTER` when it has taken effect. A process that comes to its end writes how many there were to
// `KILL_COUNT`. To be imported before the program.
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";

const at = Number(process.env.KILL_AT);
const isAfter = process.env.KILL_AFTER !== undefined;
const writeCount = fs.writeFileSync;
let calls = 0;
process.on("exit", () => writeCount(process.env.KILL_COUNT, String(calls)));

const die = () => process.kill(process.pid, "SIGKILL");

/** What a program says on its standard streams changes nothing. */
const isSaid = (self, [target]) => [1, 2].includes(self instanceof net.Socket ? self.fd : target);

/** `end` ends the process once a call has taken effect: it gets the call, and its result. */
function count(owner, names, end) {
  for (const name of names) {
    const real = owner[name];
    owner[name] = function (...given) {
      if (isSaid(this, given) || ++calls !== at) return real.apply(this, given);
      if (!isAfter) die();
      return end((...args) => real.apply(this, args), given);
    };
  }
}

const CHANGES = ["write", "writev", "ftruncate", "rename", "unlink", "rm", "rmdir", "mkdir", "link"];
const SYNCS = ["fsync", "fdatasync"];
const SYNC = [...CHANGES, ...SYNCS].map((name) => `${name}Sync`);
count(fs, SYNC, (call, given) => {
  call(...given);
  die();
});
// Those that open a file, and may make it.
count(fs, ["openSync", "writeFileSync"], (call, given) => {
  call(...given);
  die();
});
count(fs, [...CHANGES, ...SYNCS], (call, given) => call(...given.slice(0, -1), die));
const PROMISED = ["open", "writeFile", "rename", "unlink", "rm", "rmdir", "mkdir", "link"];
count(fs.promises, PROMISED, (call, given) => call(...given).then(die, die));
const file = await fs.promises.open(import.meta.filename ?? process.execPath);
count(Object.getPrototypeOf(file), ["write", "writeFile", "sync", "datasync"], (call, given) =>
  call(...given).then(die, die),
);
await file.close();
// A request to a storage or a database: the other side has it, and the answer never arrives.
count(net.Socket.prototype, ["write"], (call, given) => {
  call(...given);
  setTimeout(die, 5);
  return true;
});
syncBuiltinESMExports();
