import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { readIfThere } from "../core/base/read-if-there.ts";
import { credentialNames } from "./credential-names.ts";
import { serviceFolder } from "./data-folder.ts";
import { type IgnoreRules, parseIgnore } from "./dockerignore.ts";
import { DeployError } from "./errors.ts";

/** The files that an image is built from, and where the project is among them. */
export interface ContextSource {
  /** Root folder of the build, absolute: the project's, or the root of the workspace that it belongs to. */
  readonly root: string;
  /** The project's folder below it, with `/`; empty where it is the root itself. */
  readonly folder: string;
  /** The controller's file below `folder`. */
  readonly controller: string;
  /**
   * Folders of other packages of the workspace, which the image does not need: only their package.json is
   * included.
   */
  readonly unused: readonly string[];
}

/** A file or folder that is excluded from the image by default. A folder's path ends with `/`. */
export interface LeftOut {
  readonly path: string;
  readonly why: "credential" | "data" | "keys";
}

export interface FoundFiles {
  /** Paths of files and links below the root, with `/`. */
  readonly paths: readonly string[];
  readonly leftOut: readonly LeftOut[];
  /** Paths that the user named in a `!` line: they are always included in the image. */
  readonly keptByName: ReadonlySet<string>;
}

/** Never read: their content is installed or fetched again, or belongs to svc. */
const SKIPPED = ["node_modules", ".git", ".deployment"];

/** Finds the files of a build. Excluded folders are not read. */
export async function contextFiles(source: ContextSource, dockerignore: string): Promise<FoundFiles> {
  const rules = await readRules(source, dockerignore);
  const credentials = credentialNames();
  const paths: string[] = [];
  const leftOut: LeftOut[] = [];

  const visit = async (folder: string): Promise<void> => {
    const entries = await readdir(join(source.root, folder), { withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name);
    const service = await serviceFolder(join(source.root, folder), files);
    if (service !== undefined && !holdsCode(source, folder)) {
      leftOut.push({ path: `${folder}/`, why: service });
      return;
    }
    if (service === "data") throw dataAmongCode(folder);
    for (const entry of entries) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) {
        if (SKIPPED.includes(entry.name)) continue;
        if (source.unused.includes(path)) {
          paths.push(`${path}/package.json`);
          continue;
        }
        const isCredential = credentials.ignores(path) && !rules.namesBelow(path);
        if (isCredential && !rules.ownIgnores(path)) leftOut.push({ path: `${path}/`, why: "credential" });
        if (!isCredential && !rules.ignoresFolder(path)) await visit(path);
      } else if (credentials.ignores(path) && !rules.keptByName.has(path)) {
        if (!rules.ownIgnores(path)) leftOut.push({ path, why: "credential" });
      } else if (!rules.ignores(path)) paths.push(path);
    }
  };
  await visit("");
  return { paths, leftOut, keptByName: rules.keptByName };
}

interface ContextRules {
  ignores(path: string): boolean;
  /** Whether everything below the folder is excluded. */
  ignoresFolder(path: string): boolean;
  /** Whether the user's own file excludes the path. */
  ownIgnores(path: string): boolean;
  readonly keptByName: ReadonlySet<string>;
  namesBelow(folder: string): boolean;
}

/** The generated rules and the user's own, at the root and, in a workspace, in the project's folder. */
async function readRules({ root, folder }: ContextSource, dockerignore: string): Promise<ContextRules> {
  const places: { base: string; all: IgnoreRules; own: IgnoreRules }[] = [];
  for (const base of new Set(["", folder])) {
    const own = (await readIfThere(join(root, base, ".dockerignore"))) ?? "";
    // Its last line may lack an end, and its first be marked as UTF-8.
    const all = parseIgnore(`${dockerignore}\n${own.replace(/^\uFEFF/, "")}`);
    places.push({ base, all, own: parseIgnore(own) });
  }
  const below = (base: string, path: string): string | undefined => {
    if (base === "") return path;
    return path.startsWith(`${base}/`) ? path.slice(base.length + 1) : undefined;
  };
  const some = (path: string, test: (place: (typeof places)[number], inner: string) => boolean) =>
    places.some((place) => {
      const inner = below(place.base, path);
      return inner !== undefined && test(place, inner);
    });
  const keptByName = new Set(
    places.flatMap(({ base, all }) =>
      [...all.keptByName].map((path) => (base === "" ? path : `${base}/${path}`)),
    ),
  );
  return {
    ignores: (path) => some(path, ({ all }, inner) => all.ignores(inner)),
    ignoresFolder: (path) => some(path, ({ all }, inner) => all.ignores(inner) && !all.mayKeepBelow(inner)),
    ownIgnores: (path) => some(path, ({ own }, inner) => own.ignores(inner)),
    keptByName,
    namesBelow: (path) => [...keptByName].some((one) => one.startsWith(`${path}/`)),
  };
}

function holdsCode({ folder, controller }: ContextSource, path: string): boolean {
  const code = folder === "" ? controller : `${folder}/${controller}`;
  return path === "" || path === folder || code.startsWith(`${path}/`);
}

function dataAmongCode(folder: string): DeployError {
  return new DeployError(
    "preflight",
    `${folder === "" ? "The project's folder" : folder} contains both code and a service's data (MANIFEST.json)`,
    {
      detail: "An image built from it would contain every job, and the service's keys",
      outcome: "Nothing was built",
      fix: "Move the data to its own folder, and set that folder with --data-dir or SERVICE_DATA_DIR",
    },
  );
}
