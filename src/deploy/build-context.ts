import { createHash } from "node:crypto";
import { lstat, open, readFile, readlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { type ContextSource, contextFiles, type LeftOut } from "./context-files.ts";
import { DeployError } from "./errors.ts";
import { findSecret, SCANNED_BYTES, type SecretForm } from "./secret-forms.ts";
import { gzipped, type TarEntry, toTar } from "./tar.ts";
import { SETTINGS_FILES, withoutCredentials } from "./without-credentials.ts";

export interface ContextFiles {
  readonly dockerfile: string;
  readonly dockerignore: string;
}

/** What an image is built from: the project's files after the ignore rules, with the Dockerfile at the root. */
export interface PackedContext {
  /** In the order of their paths. */
  readonly files: readonly TarEntry[];
  /** SHA-256 over names, modes and contents. */
  readonly hash: string;
  /** Total bytes of all files. */
  readonly size: number;
  /** Excluded although no ignore rule of the user says so. */
  readonly leftOut: readonly LeftOut[];
  /** Files that seem to contain a secret and that no `!` line of the user names. */
  readonly suspects: readonly (SecretForm & { readonly path: string })[];
  /** Reads the files again; rejects if they no longer match `hash`. */
  tar(): AsyncIterable<Uint8Array>;
  tarGz(): AsyncIterable<Uint8Array>;
}

const CHUNK = 256 * 1024;

/** Collects a project's files, and reads each once for the hash; contents are not kept. */
export async function packContext(
  source: ContextSource,
  { dockerfile, dockerignore }: ContextFiles,
): Promise<PackedContext> {
  const found = await contextFiles(source, dockerignore);
  const files: TarEntry[] = [inMemory("Dockerfile", dockerfile)];
  for (const path of found.paths) {
    const entry = path === "Dockerfile" ? undefined : await toEntry(source.root, path);
    if (entry) files.push(entry);
  }
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  const suspects: (SecretForm & { path: string })[] = [];
  const hash = createHash("sha256");
  for (const file of files) {
    const secret = await readOnce(file, hash);
    if (secret && !found.keptByName.has(file.path)) suspects.push({ path: file.path, ...secret });
  }
  const sum = hash.digest("hex");
  const tar = () => toTar(checked(files, sum));
  return {
    files,
    hash: sum,
    size: files.reduce((total, { size }) => total + size, 0),
    leftOut: found.leftOut,
    suspects,
    tar,
    tarGz: () => gzipped(tar()),
  };
}

async function toEntry(root: string, path: string): Promise<TarEntry | undefined> {
  const from = join(root, path);
  const stats = await lstat(from);
  if (stats.isSymbolicLink()) return { path, size: 0, content: () => [], link: await readlink(from) };
  if (!stats.isFile()) return undefined;
  const executable = (stats.mode & 0o100) !== 0;
  const name = basename(path);
  if ((SETTINGS_FILES as readonly string[]).includes(name))
    return { ...inMemory(path, withoutCredentials(name, await readFile(from, "utf8"))), executable };
  const { size } = stats;
  return { path, size, executable, content: () => contentOf(from, path, size) };
}

function inMemory(path: string, text: string): TarEntry {
  const content = Buffer.from(text);
  return { path, size: content.length, content: () => [content] };
}

async function* contentOf(from: string, path: string, size: number): AsyncGenerator<Uint8Array> {
  const file = await open(from);
  try {
    for (let at = 0; ; ) {
      const { bytesRead, buffer } = await file.read({ buffer: Buffer.allocUnsafe(CHUNK), position: at });
      at += bytesRead;
      // The archive's header has promised the size.
      if (at > size || (bytesRead === 0 && at < size)) throw changed(path);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}

/** Adds a file to the hash; resolves with the secret that it contains. */
async function readOnce(
  file: TarEntry,
  hash: ReturnType<typeof createHash>,
): Promise<SecretForm | undefined> {
  addHead(file, hash);
  const start: Uint8Array[] = [];
  let scanned = 0;
  for await (const chunk of file.content()) {
    hash.update(chunk);
    if (scanned < SCANNED_BYTES) start.push(chunk);
    scanned += chunk.length;
  }
  return findSecret(Buffer.concat(start).toString("latin1"));
}

/** The entries as they were hashed; rejects after the last one if a file's content has changed. */
async function* checked(files: readonly TarEntry[], sum: string): AsyncGenerator<TarEntry> {
  const hash = createHash("sha256");
  for (const file of files) {
    addHead(file, hash);
    yield {
      ...file,
      async *content() {
        for await (const chunk of file.content()) {
          hash.update(chunk);
          yield chunk;
        }
      },
    };
  }
  if (hash.digest("hex") !== sum) throw changed();
}

function addHead(
  { path, executable = false, link = "", size }: TarEntry,
  hash: ReturnType<typeof createHash>,
): void {
  hash.update(`${path}\0${executable ? "x" : "-"}\0${link}\0${size}\0`);
}

function changed(path?: string): DeployError {
  return new DeployError("failed", `${path ?? "A file"} changed while the project was packed`, {
    detail: "The image would not match the plan",
    outcome: "Nothing was released",
    fix: "Run the command again once nothing writes to the project. Add files that change by themselves to .dockerignore",
  });
}
