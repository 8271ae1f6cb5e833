import { closeSync, openSync, readFileSync, rmSync, utimesSync, writeSync } from "node:fs";
import { mkdir, rm, stat } from "node:fs/promises";
import { hostname, userInfo } from "node:os";
import { dirname } from "node:path";
import { DeployError } from "./errors.ts";
import type { LockHolder } from "./platform.ts";

interface LockFile extends LockHolder {
  readonly pid: number;
  readonly host: string;
  readonly command: string;
}

/** A holder on this machine is alive while its process is; elsewhere, while it touches the file. */
const BEAT = 10_000;
const DEAD_AFTER = 10 * 60_000;
const TAKEOVER_STALE = 30_000;

export interface Lock {
  readonly holder: LockHolder;
  /** Called when the lock of a dead holder was taken over. */
  readonly tookOver: string | undefined;
  release(): Promise<void>;
}

/** Acquires the lock of a target, or rejects with `DeployError` "locked" that names the holder. */
export async function takeLock(
  path: string,
  options: {
    readonly id: string;
    readonly command: string;
    readonly now: () => Date;
    /** The pipeline that runs the command, for people. */
    readonly pipeline?: string | undefined;
  },
): Promise<Lock> {
  const { id, command, now } = options;
  const place = options.pipeline ?? `${userName()}@${hostname()}, process ${process.pid}`;
  const who = `${place} (${command})`;
  const mine: LockFile = {
    id,
    holder: who,
    since: now().toISOString(),
    pid: process.pid,
    host: hostname(),
    command,
  };
  await mkdir(dirname(path), { recursive: true });
  const tookOver = create(path, mine) ? undefined : await takeOver(path, mine, now);
  const beat = setInterval(() => touch(path, now()), BEAT);
  beat.unref();
  return {
    holder: { id, holder: who, since: mine.since },
    tookOver,
    async release() {
      clearInterval(beat);
      if (read(path)?.id === id) await rm(path, { force: true });
    },
  };
}

/** Who holds the lock now, dead or alive. */
export function readLock(path: string): LockHolder | undefined {
  return read(path);
}

async function takeOver(path: string, mine: LockFile, now: () => Date): Promise<string> {
  const held = read(path);
  // An empty file belongs to a run that is writing it right now, unless it is older.
  if (held === undefined && (await ageInMs(path, now)) < TAKEOVER_STALE) throw lockedBy(mine, now());
  if (held !== undefined && (await alive(path, held, now))) throw lockedBy(held, now());
  // Only one of several runs that see a dead holder may remove its lock: the others could remove its
  // successor's.
  const gate = `${path}.takeover`;
  if (!create(gate, mine)) {
    await removeIfOlder(gate, TAKEOVER_STALE, now);
    throw lockedBy(read(path) ?? mine, now());
  }
  try {
    const still = read(path);
    if (still !== undefined && still.id !== held?.id) throw lockedBy(still, now());
    rmSync(path, { force: true });
    if (!create(path, mine)) throw lockedBy(read(path) ?? mine, now());
    return held?.holder ?? "a killed run";
  } finally {
    await rm(gate, { force: true });
  }
}

async function alive(path: string, held: LockFile, now: () => Date): Promise<boolean> {
  if (held.host === hostname()) return isRunning(held.pid);
  return (await ageInMs(path, now)) < DEAD_AFTER;
}

async function ageInMs(path: string, now: () => Date): Promise<number> {
  try {
    return now().getTime() - (await stat(path)).mtimeMs;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Whether a holder was a process of this machine that has ended. */
export function hasEndedHere({ holder }: LockHolder): boolean {
  const [, host, pid] = /^[^@]*@(.+), process (\d+) \(/.exec(holder) ?? [];
  return host === hostname() && !isRunning(Number(pid));
}

/** Whether a process of this machine is alive. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function create(path: string, content: LockFile): boolean {
  try {
    const file = openSync(path, "wx", 0o600);
    writeSync(file, JSON.stringify(content));
    closeSync(file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function read(path: string): LockFile | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as LockFile;
  } catch {
    return undefined;
  }
}

function touch(path: string, now: Date): void {
  try {
    utimesSync(path, now, now);
  } catch {
    // Removed by hand: the next command acquires a new lock.
  }
}

async function removeIfOlder(path: string, age: number, now: () => Date): Promise<void> {
  if ((await ageInMs(path, now)) > age) await rm(path, { force: true });
}

/** The error that names who deploys a target now. */
export function lockedBy(held: LockHolder, now: Date): DeployError {
  return new DeployError("locked", `Another deployment of this target is in progress: ${held.holder}`, {
    detail: `It has held the lock since ${held.since}, for ${ageOf(new Date(held.since), now)}`,
    fix: "Wait for it to finish and run the command again; the lock of a dead process is taken over automatically",
  });
}

/** Time since then, as text. */
export function ageOf(since: Date, now: Date): string {
  const seconds = Math.max(0, Math.round((now.getTime() - since.getTime()) / 1000));
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return "unknown";
  }
}
