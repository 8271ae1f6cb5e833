import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROJECT, temporaryProject, writeAll } from "./_fixture.ts";

/** A stand-in for the installed package: what the tests are about is the image around it. */
const BIN = `#!/usr/bin/env node
const http = require("node:http");
const fs = require("node:fs");
const started = Date.now();
for (const ref of process.env.SERVICE_SECRETS_DIR ? fs.readdirSync(process.env.SERVICE_SECRETS_DIR) : [])
  for (const name of fs.readdirSync(process.env.SERVICE_SECRETS_DIR + "/" + ref))
    process.env[name] = fs.readFileSync([process.env.SERVICE_SECRETS_DIR, ref, name].join("/"), "utf8");
const { SERVICE_API_KEY: key, SERVICE_PORT: port, SICK: sick } = process.env;
if (sick === "exit") { console.error("cannot find the controller"); process.exit(1); }
http.createServer((request, response) => {
  const answer = (status, body) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  if (sick === "500") return answer(500, {});
  if (request.url === "/.well-known/health") return answer(200, { status: "healthy", uptime: (Date.now() - started) / 1000 });
  if (request.url === "/agents/health") return answer(request.headers["x-api-key"] === key ? 200 : 401, {});
  if (request.url === "/docs") return answer(200, {});
  if (request.url === "/whoami") return answer(200, { uid: process.getuid(), env: process.env, pid: process.pid });
  answer(404, {});
}).listen(Number(port), process.env.SERVICE_HOST, () => console.log("listening", process.argv.slice(2).join(" ")));
process.on("SIGTERM", () => process.exit(0));
`;

let packed: string | undefined;

/** A project whose one dependency is a tarball in its folder, with a lock file. */
export function localProject(files: Record<string, string> = {}): string {
  packed ??= pack();
  const cwd = temporaryProject({});
  cpSync(packed, cwd, { recursive: true });
  writeAll(cwd, files);
  return cwd;
}

/** Removes what the projects were copied from. */
export function dropPacked(): void {
  if (packed !== undefined) rmSync(packed, { recursive: true, force: true });
  packed = undefined;
}

function pack(): string {
  const cwd = mkdtempSync(join(tmpdir(), "svc-stand-in-"));
  const manifest = { name: "agent-control-service", version: "9.9.9", bin: { svc: "svc.js" } };
  const tarball = "file:./agent-control-service-9.9.9.tgz";
  writeAll(cwd, {
    ...PROJECT,
    "package.json": JSON.stringify({
      name: "hello",
      type: "module",
      dependencies: { "agent-control-service": tarball },
    }),
    "stand-in/package.json": JSON.stringify(manifest),
    "stand-in/svc.js": BIN,
  });
  const npm = (...args: string[]) => execFileSync("npm", args, { cwd, stdio: "ignore" });
  npm("pack", "./stand-in", "--silent");
  rmSync(join(cwd, "stand-in"), { recursive: true });
  npm("install", "--package-lock-only", "--no-audit", "--no-fund", "--silent");
  return cwd;
}

/** A port of this machine that nobody listens on. */
export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

/** Runs docker for a test; the text that it prints. */
export function docker(...args: string[]): string {
  return execFileSync("docker", args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
}
