import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { freePort } from "./_local-project.ts";

/** A registry of this machine that lets nobody in without the login. */
export interface LoginRegistry {
  /** Host and port: the first part of an image's name. */
  readonly host: string;
  /** Folder with what was pushed. */
  readonly images: string;
  /** The digest under which it keeps an image, asked of it with the login. */
  digestOf(repository: string, tag: string): Promise<string | null>;
}

/** Starts a registry with one login; it ends with the test. */
export async function loginRegistry(username: string, password: string): Promise<LoginRegistry> {
  const folder = mkdtempSync(join(tmpdir(), "svc-registry-"));
  const port = await freePort();
  const host = `127.0.0.1:${port}`;
  const words = ["-niB", "-C", "4", username];
  writeFileSync(join(folder, "htpasswd"), execFileSync("htpasswd", words, { input: password }));
  writeFileSync(
    join(folder, "config.yml"),
    JSON.stringify({
      version: "0.1",
      log: { level: "error" },
      storage: { filesystem: { rootdirectory: join(folder, "images") } },
      http: { addr: host },
      auth: { htpasswd: { realm: "test", path: join(folder, "htpasswd") } },
    }),
  );
  const server = spawn("docker-registry", ["serve", join(folder, "config.yml")], { stdio: "ignore" });
  onTestFinished(() => {
    server.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  const headers = { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}` };
  for (let tries = 0; tries < 1200; tries++) {
    if (await fetch(`http://${host}/v2/`, { headers }).catch(() => undefined)) break;
    await new Promise((done) => setTimeout(done, 50));
  }
  return {
    host,
    images: join(folder, "images"),
    async digestOf(repository, tag) {
      const accept = "application/vnd.docker.distribution.manifest.v2+json";
      const url = `http://${host}/v2/${repository}/manifests/${tag}`;
      const response = await fetch(url, { method: "HEAD", headers: { ...headers, accept } });
      return response.headers.get("docker-content-digest");
    },
  };
}
