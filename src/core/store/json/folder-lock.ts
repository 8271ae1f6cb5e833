import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { createConnection, createServer, type Server } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { ServiceError } from "../../base/errors.ts";
import { storageError } from "../storage-error.ts";
import type { StoreLogger } from "../store.ts";

/** Locks a folder against other processes until it is released, or until the process ends in any way. */
export interface FolderLock {
  release(): Promise<void>;
}

/** Another process has the folder. */
export class FolderInUseError extends ServiceError {
  constructor(folder: string, holder: string) {
    super("storage_error", `${folder} is in use by ${holder}`, {
      detail:
        "Stop that process, or set another data folder for this service (option dataDir, variable SERVICE_DATA_DIR).",
    });
  }
}

/** The address of a Unix socket has room for this many bytes on every system. */
const ADDRESS = 100;
/** Errors of a file system that has no sockets. */
const NO_SOCKETS = ["EOPNOTSUPP", "ENOTSUP", "EPERM", "EINVAL", "ENOSYS"];

/**
 * Locks a folder by listening on a numbered Unix socket in it. The system closes the socket of a process that
 * dies, so connecting to it distinguishes the lock of a dead process from that of a living one: no process
 * number that means something else in another container, no waiting for a lease to expire.
 *
 * Numbers only grow: a process that finds the highest socket dead binds the next one, and only one process
 * can do that. A released lock leaves its number behind.
 */
export async function lockFolder(folder: string, log: StoreLogger): Promise<FolderLock> {
  if (process.platform === "win32") return lockPipe(folder);
  try {
    return await lockIn(folder, folder);
  } catch (error) {
    // A socket's error names its address, which may lead through a descriptor.
    if (error instanceof Error && "address" in error) Object.assign(error, { path: folder });
    if (!NO_SOCKETS.includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    const place = join(tmpdir(), `store-lock-${digest(folder)}`);
    fs.mkdirSync(place, { recursive: true, mode: 0o700 });
    log.warn(
      "Store: the file system does not support sockets; the lock is in the system's temporary folder",
      {
        place,
      },
    );
    return lockIn(place, folder);
  }
}

async function lockIn(place: string, folder: string): Promise<FolderLock> {
  const address = addressesIn(place);
  try {
    for (let attempt = 0; attempt < 50; attempt++) {
      const { number, isBound } = highest(place);
      if (isBound) await refuseIfAlive(address.of(number), folder);
      const server = await listen(address.of(number + 1));
      if (server === undefined) continue;
      if (highest(place).number > number + 1) {
        // Somebody else has locked and released it in the meantime.
        await close(server);
        continue;
      }
      removeBelow(place, number + 1);
      const socket = join(place, `lock.${number + 1}.sock`);
      const bound = inodeOf(socket);
      const release = async () => {
        // Closing removes whatever has the name: it may be another process's, in a folder that was replaced.
        if (bound !== undefined && inodeOf(socket) !== bound) return;
        await letGo(server, { place, number: number + 1, address });
      };
      return { release };
    }
  } catch (error) {
    address.close();
    throw error;
  }
  address.close();
  throw storageError(
    `The lock of ${folder} could not be acquired`,
    "Several processes are trying to open it; start only one.",
  );
}

interface Addresses {
  of(number: number): string;
  close(): void;
}

/** A long path is opened through the folder's descriptor, which has a short name on Linux. */
function addressesIn(place: string): Addresses {
  const plain = (number: number) => join(place, `lock.${number}.sock`);
  if (Buffer.byteLength(plain(1_000_000)) <= ADDRESS) return { of: plain, close: () => {} };
  if (process.platform !== "linux") {
    throw Object.assign(new Error("the path is too long for a socket"), { code: "ENOTSUP" });
  }
  const descriptor = fs.openSync(place, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  return {
    of: (number) => `/proc/self/fd/${descriptor}/lock.${number}.sock`,
    close: () => fs.closeSync(descriptor),
  };
}

/** The highest number, and whether a socket has it. */
function highest(place: string): { number: number; isBound: boolean } {
  let number = 0;
  const names = fs.readdirSync(place);
  for (const name of names) number = Math.max(number, numberOf(name));
  return { number, isBound: names.includes(`lock.${number}.sock`) };
}

function numberOf(name: string): number {
  return Number(/^lock\.(\d+)\.(sock|free)$/.exec(name)?.[1] ?? 0);
}

function removeBelow(place: string, number: number): void {
  for (const name of fs.readdirSync(place)) {
    const other = numberOf(name);
    if (other > 0 && other < number) fs.rmSync(join(place, name), { force: true });
  }
}

function inodeOf(path: string): number | undefined {
  return fs.statSync(path, { throwIfNoEntry: false })?.ino;
}

async function letGo(
  server: Server,
  { place, number, address }: { place: string; number: number; address: Addresses },
): Promise<void> {
  try {
    // Closing removes the socket: the number must stay, or the next process could begin at 1 beside a slower one.
    fs.writeFileSync(join(place, `lock.${number}.free`), "", { mode: 0o600 });
  } catch {
    // A full disk has no space for the name; a single next process does not need it.
  }
  await close(server);
  address.close();
}

/** Listens, or returns `undefined` if the address is in use. */
function listen(path: string): Promise<Server | undefined> {
  const identity = JSON.stringify({ pid: process.pid, host: hostname() });
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.unref().end(identity);
  });
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(undefined);
      else reject(error);
    });
    server.listen(path, () => resolve(server.unref()));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

/** Throws if a process responds, with its description of itself. */
async function refuseIfAlive(path: string, folder: string): Promise<void> {
  const answer = await ask(path);
  if (answer === undefined) return;
  throw new FolderInUseError(folder, describeHolder(answer));
}

/** The message of a lock's holder; empty if it is too busy; `undefined` if there is none. */
function ask(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    let answer = "";
    const socket = createConnection(path);
    socket.setTimeout(3000, () => {
      socket.destroy();
      resolve(answer);
    });
    socket.on("data", (chunk) => {
      answer += chunk.toString();
    });
    socket.on("end", () => resolve(answer));
    socket.on("error", (error: NodeJS.ErrnoException) => {
      resolve(error.code === "ECONNREFUSED" || error.code === "ENOENT" ? undefined : answer);
    });
  });
}

function describeHolder(answer: string): string {
  try {
    const { pid, host } = JSON.parse(answer) as { pid: number; host: string };
    return `process ${pid} on ${host}`;
  } catch {
    return "another process";
  }
}

/** Windows has named pipes, which are removed with their process as sockets are. */
async function lockPipe(folder: string): Promise<FolderLock> {
  const path = `\\\\.\\pipe\\store-lock-${digest(folder)}`;
  const server = await listen(path);
  if (server !== undefined) return { release: () => close(server) };
  await refuseIfAlive(path, folder);
  throw storageError(`The lock of ${folder} could not be acquired`, "Start only one service on it.");
}

function digest(folder: string): string {
  return createHash("sha256").update(fs.realpathSync(folder)).digest("hex").slice(0, 24);
}
