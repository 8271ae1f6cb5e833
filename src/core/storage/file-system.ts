import { readFileSync, realpathSync, statfsSync } from "node:fs";
import type { FileSystem } from "./file-io.ts";

/** `f_type` of file systems that several hosts may share: NFS, SMB 1 to 3, CIFS, FUSE, 9P, Ceph, AFS. */
const SHARED = new Set([
  0x6969, 0x517b, 0xfe534d42, 0xff534d42, 0x65735546, 0x01021997, 0x00c36400, 0x6b414653,
]);
/** Programs that show an object store as a file system, as they name themselves in the table of mounts. */
const BUCKETS = /gcsfuse|s3fs|goofys|geesefs|mountpoint-s3|mount-s3|blobfuse|rclone|ossfs|obsfs|cosfs/i;

/** Finds out what kind of file system a folder is on; `disk` if the system does not report it. */
export function fileSystem(folder: string): FileSystem {
  if (process.platform !== "linux") return { kind: "disk" };
  if (!SHARED.has(typeOf(folder))) return { kind: "disk" };
  const mount = mountOf(folder);
  const name = mount === undefined ? undefined : BUCKETS.exec(mount)?.[0];
  return name === undefined ? { kind: "network" } : { kind: "bucket", name };
}

/** The number is signed on some systems. */
function typeOf(folder: string): number {
  try {
    return statfsSync(folder).type >>> 0;
  } catch {
    return 0;
  }
}

/** Type and source of the file system that a folder is on, such as `fuse.gcsfuse my-bucket`. */
function mountOf(folder: string): string | undefined {
  try {
    return findMount(readFileSync("/proc/self/mountinfo", "utf8"), realpathSync(folder));
  } catch {
    return undefined;
  }
}

/** The mount of a folder, from the text of `/proc/self/mountinfo` (proc_pid_mountinfo(5)). */
export function findMount(mounts: string, folder: string): string | undefined {
  let found: string | undefined;
  let longest = -1;
  for (const line of mounts.split("\n")) {
    const [, , , , escaped, ...rest] = line.split(" ");
    if (escaped === undefined) continue;
    const point = escaped.replace(/\\([0-7]{3})/g, (_, code: string) =>
      String.fromCharCode(parseInt(code, 8)),
    );
    const isAbove = point === "/" || folder === point || folder.startsWith(`${point}/`);
    // Of two mounts on one point the later one is seen.
    if (!isAbove || point.length < longest) continue;
    longest = point.length;
    const end = rest.indexOf("-");
    found = rest.slice(end + 1, end + 3).join(" ");
  }
  return found;
}
