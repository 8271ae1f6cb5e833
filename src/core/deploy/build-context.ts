import { createHash } from "node:crypto";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { readIfThere } from "./atomic-file.ts";
import { parseIgnore } from "./dockerignore.ts";
import type { TarEntry } from "./tar.ts";
import { toTar, toTarGz } from "./tar.ts";

/** What an image is built from: the project's files after the ignore rules, with the Dockerfile at the root. */
export interface PackedContext {
  readonly files: readonly TarEntry[];
  /** SHA-256 over names, modes and contents. */
  readonly hash: string;
  tar(): Buffer;
  tarGz(): Promise<Buffer>;
}

export interface ContextFiles {
  readonly dockerfile: string;
  readonly dockerignore: string;
}

/** Lines of an `.npmrc` that hold a credential: they must not enter a layer. */
const NPMRC_CREDENTIAL = /^[^#;=]*(?:_auth|_authToken|_password|certfile|keyfile|\bkey|\bcert)\s*=/i;

/** Collects a project's files. The project's own `.dockerignore` counts too. */
export async function packContext(
  cwd: string,
  { dockerfile, dockerignore }: ContextFiles,
): Promise<PackedContext> {
  const own = (await readIfThere(join(cwd, ".dockerignore"))) ?? "";
  const ignored = parseIgnore(`${dockerignore}\n${own}`);
  const files: TarEntry[] = [{ path: "Dockerfile", content: Buffer.from(dockerfile) }];
  for await (const entry of walk(cwd, "", ignored)) {
    if (entry.path !== "Dockerfile") files.push(entry);
  }
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { files, hash: hashOf(files), tar: () => toTar(files), tarGz: () => toTarGz(files) };
}

/** An `.npmrc` without its credentials. */
export function withoutCredentials(npmrc: string): string {
  return npmrc
    .split(/\r?\n/)
    .filter((line) => !NPMRC_CREDENTIAL.test(line))
    .join("\n");
}

async function* walk(
  cwd: string,
  folder: string,
  ignored: (path: string) => boolean,
): AsyncGenerator<TarEntry> {
  for (const name of await readdir(join(cwd, folder))) {
    const path = folder === "" ? name : `${folder}/${name}`;
    const stats = await lstat(join(cwd, path));
    if (stats.isDirectory()) {
      // Not left out as a whole: a later rule may keep something below an ignored folder.
      if (name === "node_modules" || name === ".git" || path === ".deployment") continue;
      yield* walk(cwd, path, ignored);
    } else if (ignored(path)) continue;
    else if (stats.isSymbolicLink())
      yield { path, content: new Uint8Array(), link: await readlink(join(cwd, path)) };
    else if (stats.isFile()) {
      const content = await readFile(join(cwd, path));
      const clean = name === ".npmrc" ? Buffer.from(withoutCredentials(content.toString())) : content;
      yield { path, content: clean, executable: (stats.mode & 0o100) !== 0 };
    }
  }
}

function hashOf(files: readonly TarEntry[]): string {
  const hash = createHash("sha256");
  for (const { path, content, executable = false, link = "" } of files) {
    hash.update(`${path}\0${executable ? "x" : "-"}\0${link}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}
