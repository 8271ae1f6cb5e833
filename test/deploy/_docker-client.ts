import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** A listener in place of Docker's engine, which tells what the real client packs of a folder. */
export interface DockerClient {
  /** The names in the archive that `docker build` sends; rejects with the client's words where it refuses. */
  packed(cwd: string): Promise<string[]>;
  close(): Promise<void>;
}

/** Starts the listener. The client of this machine reads the folder and its `.dockerignore` and sends what is left. */
export async function openDockerClient(): Promise<DockerClient> {
  const folder = mkdtempSync(join(tmpdir(), "svc-engine-"));
  const socket = join(folder, "engine.sock");
  let names: string[] = [];
  const server = createServer(async (request, response) => {
    response.setHeader("api-version", "1.41");
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (request.url?.includes("/build")) names = tarNames(Buffer.concat(chunks));
    response.end("{}");
  });
  await new Promise<void>((done) => server.listen(socket, done));
  const env = {
    ...process.env,
    DOCKER_BUILDKIT: "0",
    DOCKER_HOST: `unix://${socket}`,
    DOCKER_CONFIG: folder,
  };
  return {
    async packed(cwd) {
      names = [];
      await promisify(execFile)("docker", ["build", "--quiet", "."], { cwd, env });
      return names;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Names of the files in an archive, those in pax records too. */
export function tarNames(tar: Buffer): string[] {
  const names: string[] = [];
  let long: string | undefined;
  for (let at = 0; tar.toString("latin1", at + 257, at + 262) === "ustar"; ) {
    const header = tar.subarray(at, at + 512);
    const size = Number.parseInt(header.toString("latin1", 124, 136), 8);
    const type = String.fromCharCode(header[156] ?? 0);
    if (type === "x")
      long = /(?:^|\n)\d+ path=(.*)\n/.exec(tar.toString("utf8", at + 512, at + 512 + size))?.[1];
    else {
      if (type !== "5") names.push(long ?? header.toString("utf8", 0, 100).replace(/\0.*$/s, ""));
      long = undefined;
    }
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return names;
}
