import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import { promisify } from "node:util";

const RELEASES = "https://github.com/cloudflare/cloudflared/releases/download";
const VERSION = "2026.7.2";
/** Names of the downloads, by system and processor. */
const DOWNLOADS: Readonly<Record<string, string>> = {
  "linux arm64": "cloudflared-linux-arm64",
  "linux arm": "cloudflared-linux-arm",
  "linux x64": "cloudflared-linux-amd64",
  "linux ia32": "cloudflared-linux-386",
  "darwin arm64": "cloudflared-darwin-arm64.tgz",
  "darwin x64": "cloudflared-darwin-amd64.tgz",
  "win32 x64": "cloudflared-windows-amd64.exe",
  "win32 ia32": "cloudflared-windows-386.exe",
};
/** Milliseconds that it gets to end. */
const PATIENCE = 5000;
const MOST_LINES = 10;

type Environment = Readonly<Record<string, string | undefined>>;

/** A tunnel that leads from the internet to a service. */
export interface Tunnel {
  readonly url: string;
  close(): Promise<void>;
}

/** Where the program is kept, in a folder of this user alone: what is there is run. */
export function cloudflaredPath(cacheDir: string, env: Environment): string {
  const end = process.platform === "win32" ? ".exe" : "";
  return join(cacheDir, "node-untun", `cloudflared.${env.CLOUDFLARED_VERSION || VERSION}${end}`);
}

/** Opens a tunnel to an address, with the program that is kept, or downloaded now. */
export async function openTunnel(to: string, cacheDir: string, env: Environment): Promise<Tunnel> {
  const program = cloudflaredPath(cacheDir, env);
  if (!existsSync(program)) await download(program, env.CLOUDFLARED_VERSION || VERSION);
  // A certificate of --https is signed by nobody.
  const child = spawn(program, ["tunnel", "--url", to, "--no-tls-verify"], {
    env: { ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const close = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
    const ended = once(child, "exit");
    child.kill("SIGINT");
    const cut = setTimeout(() => child.kill("SIGKILL"), PATIENCE);
    await ended;
    clearTimeout(cut);
  };
  const url = await new Promise<string>((resolve, reject) => {
    let text = "";
    const read = (part: Buffer) => {
      text = `${text}${part}`.split("\n").slice(-MOST_LINES).join("\n");
      const [, found] = /\|\s+(https?:\/\/\S+)/.exec(text) ?? [];
      if (found !== undefined) resolve(found);
    };
    // Both are read to the end: a full pipe would stop the program.
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("error", reject);
    child.once("exit", (code, signal) =>
      reject(new Error(`cloudflared ended (${signal ?? `exit code ${code}`}) and said:\n${text.trim()}`)),
    );
  });
  return { url, close };
}

/** Puts the program there in one step: a download that is cut off leaves none. */
async function download(program: string, version: string): Promise<void> {
  const file = DOWNLOADS[`${process.platform} ${process.arch}`];
  if (file === undefined)
    throw new Error(`There is no cloudflared for ${process.platform} on ${process.arch}`);
  const folder = dirname(program);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const own = await mkdtemp(join(folder, "download-"));
  try {
    const answer = await fetch(`${RELEASES}/${version}/${file}`);
    if (!answer.ok || !answer.body) throw new Error(`${answer.url} responds with status ${answer.status}`);
    const got = join(own, file);
    await pipeline(Readable.fromWeb(answer.body as ReadableStream), createWriteStream(got));
    const isArchive = file.endsWith(".tgz");
    if (isArchive) await promisify(execFile)("tar", ["-xzf", got, "-C", own]);
    const ready = isArchive ? join(own, "cloudflared") : got;
    await chmod(ready, 0o755);
    await rename(ready, program);
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}
