import { existsSync, readdirSync, realpathSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { getOrMake } from "../../base/get-or-make.ts";
import { isAtOrBelow } from "../../base/is-at-or-below.ts";
import { ancestorsOf, assertKeptApart, type KeptApart, projectOf, realpathOf } from "./kept-apart.ts";

/** Files of a project that are not for its agents, beside the data folder: settings with secrets, and the history. */
const HIDDEN = /^\.(env|npmrc|git|deployment|svc|aws|ssh|docker|netrc)/;

export interface PermissionsGiven extends KeptApart {
  /** Files of this package that the process begins with. */
  readonly entry: string;
  /** The only folder that it may write to unasked. */
  readonly temporary: string;
}

/**
 * Options for Node with which a process reads only the project and its packages, writes only to a folder of its own, and
 * starts neither programs nor threads. Throws where it could not be kept from what is hidden.
 */
export function permissionFlags(given: PermissionsGiven): string[] {
  const { permissions, module, entry, temporary } = given;
  if (permissions === false) return [];
  assertKeptApart(given);
  const root = projectOf(module);
  const hidden = given.hidden.map(realpathOf);
  const read = new Set<string>([temporary]);
  for (const one of readableIn(root, hidden)) read.add(one);
  for (const path of packagesOf(root, entry, hidden)) read.add(path);
  // It may become a folder. Node ends where it gets a path twice, and adds this one itself to a folder that exists.
  const own = (path: string): string[] => {
    const whole = resolve(root, path);
    return existsSync(whole) ? [whole] : [whole, join(whole, "*")];
  };
  const write = new Set([temporary, ...permissions.write.flatMap(own)]);
  for (const path of [...permissions.read.flatMap(own), ...write]) read.add(path);
  return [
    ...(PERMISSION === undefined ? [] : [PERMISSION, "--disable-warning=ExperimentalWarning"]),
    ...[...read].map((path) => `--allow-fs-read=${path}`),
    ...[...write].map((path) => `--allow-fs-write=${path}`),
    ...NETWORK,
    ...(permissions.run ? STARTING : []),
  ];
}

const KNOWN = process.allowedNodeEnvironmentFlags;
const PERMISSION = ["--permission", "--experimental-permission"].find((flag) => KNOWN.has(flag));
/** Versions that know it have no network without it. */
const NETWORK = ["--allow-net"].filter((flag) => KNOWN.has(flag));
/** What programs, threads and native modules do is not held back. */
const STARTING = ["--allow-child-process", "--allow-worker", "--allow-addons", "--allow-wasi"].filter(
  (flag) => KNOWN.has(flag),
);

/** By the project: packages change with a new start of the service, and to find them takes milliseconds. */
const packages = new Map<string, ReadonlySet<string>>();

/** The packages of a project and of this one. */
function packagesOf(root: string, entry: string, hidden: readonly string[]): ReadonlySet<string> {
  return getOrMake(packages, JSON.stringify([root, entry, hidden]), () => {
    const read = new Set<string>();
    const known = { read, hidden, seen: new Set<string>() };
    const own = projectOf(entry);
    for (const from of [root, own]) addPackages(from, known);
    if (!isIn(entry, read)) addReadable(own, known);
    return read;
  });
}

/** What is in a folder, also by links, without what is hidden there: there is no option for Node that takes a part away. */
function readableIn(folder: string, hidden: readonly string[]): string[] {
  return readdirSync(folder).flatMap((name) => {
    return HIDDEN.test(name) ? [] : readable(join(folder, name), hidden);
  });
}

/** A path, and where it leads to, without what is hidden there. */
function readable(path: string, hidden: readonly string[]): string[] {
  const real = realpathOf(path);
  if (isIn(real, hidden)) return [];
  return hidden.some((one) => isAtOrBelow(one, real)) ? readableIn(real, hidden) : [path, real];
}

interface Known {
  readonly read: Set<string>;
  readonly hidden: readonly string[];
  readonly seen: Set<string>;
}

function addReadable(path: string, { read, hidden }: Known): void {
  for (const one of readable(path, hidden)) read.add(one);
}

/** The packages that code in a folder finds, where links lead to as well, and the `package.json` that Node searches for. */
function addPackages(folder: string, known: Known): void {
  const { read, hidden, seen } = known;
  for (const above of ancestorsOf(folder)) {
    read.add(join(above, "package.json"));
    const packages = join(above, "node_modules");
    if (basename(above) === "node_modules" || !existsSync(packages)) continue;
    const real = realpathOf(packages);
    addReadable(packages, known);
    if (seen.has(real)) continue;
    seen.add(real);
    for (const linked of linksIn(packages)) {
      if (isIn(linked, read)) continue;
      for (const one of readableIn(linked, hidden)) read.add(one);
      read.add(join(linked, "package.json"));
      addPackages(linked, known);
    }
  }
}

/** Where the links in a folder of packages lead to. */
function linksIn(packages: string): string[] {
  return readdirSync(packages, { withFileTypes: true }).flatMap((entry) => {
    const path = join(packages, entry.name);
    if (entry.name.startsWith("@") && !entry.isSymbolicLink()) return linksIn(path);
    return entry.isSymbolicLink() && existsSync(path) ? [realpathSync(path)] : [];
  });
}

function isIn(path: string, folders: Iterable<string>): boolean {
  for (const folder of folders) if (isAtOrBelow(path, folder)) return true;
  return false;
}
