// @alone
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { importPeer, installCommand } from "../../src/deploy/import-peer.ts";
import { gzipped, toTar } from "../../src/deploy/tar.ts";
import type { BuiltPackage } from "../_built.ts";
import { buildPackage } from "../_built.ts";
import { requirement } from "../_require.ts";
import { bytesOf, textFile } from "../deploy/_context.ts";
import type { RunningServer } from "./http-server.ts";
import { serveHttp } from "./http-server.ts";

const PEERS = ["svc-lab-client", "svc-lab-registry"];
const COMMAND = `npm install --save-dev ${PEERS.join(" ")}`;

let built: BuiltPackage;
let registry: RunningServer;
beforeAll(async () => {
  built = await buildPackage();
  registry = await serveRegistry();
}, 120_000);
afterAll(async () => {
  await registry.close();
  await built[Symbol.asyncDispose]();
});

/** A registry of packages that knows the two which the platform of these tests needs. */
async function serveRegistry(): Promise<RunningServer> {
  const server = await serveHttp(async ({ path }) => {
    const name = PEERS.find((peer) => path.startsWith(`/${peer}`));
    if (name === undefined) return { status: 404, body: {} };
    const manifest = { name, version: "1.0.0", type: "module", exports: "./index.js" };
    const tarball = await bytesOf(
      gzipped(
        toTar([
          textFile("package/package.json", JSON.stringify(manifest)),
          textFile("package/index.js", `export const name = "${name}";\n`),
        ]),
      ),
    );
    if (path.endsWith(".tgz"))
      return { status: 200, body: tarball, headers: { "content-type": "application/octet-stream" } };
    const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
    const dist = { tarball: `${server.url}/${name}/-/${name}-1.0.0.tgz`, integrity };
    return {
      status: 200,
      body: { name, "dist-tags": { latest: "1.0.0" }, versions: { "1.0.0": { ...manifest, dist } } },
    };
  });
  return server;
}

/** A project with a platform of its own that needs both packages; there is nothing to remove on it. */
function openProject() {
  const cwd = mkdtempSync(join(tmpdir(), "svc-missing-"));
  const valibot = pathToFileURL(join(built.folder, "node_modules/valibot/dist/index.mjs")).href;
  mkdirSync(join(cwd, "src"));
  writeFileSync(join(cwd, "package.json"), JSON.stringify({ name: "lab", type: "module" }));
  writeFileSync(join(cwd, ".npmrc"), `registry=${registry.url}\naudit=false\nfund=false\n`);
  writeFileSync(
    join(cwd, "src/controller.js"),
    `import { createServer, defineAgent } from "${pathToFileURL(built.entry).href}";
import { definePlatform } from "${pathToFileURL(join(built.folder, "dist/deploy.js")).href}";
import * as v from "${valibot}";
const lab = definePlatform({
  name: "lab",
  defaultRegion: "here",
  flags: v.object({}),
  async connect(target, tools) {
    for (const name of ${JSON.stringify(PEERS)}) await tools.importPeer(name, ${JSON.stringify(PEERS)});
    return { inspect: async () => undefined, listSecrets: async () => [], remove: async () => undefined };
  },
});
const idle = defineAgent({ name: "Idle", version: "1.0.0", description: "Does nothing", methods: { job_start: { run: async () => ({}) } } });
export default createServer({ agents: [idle], plugins: [{ name: "lab", platforms: { lab: async () => ({ default: lab }) } }] });
`,
  );
  return { cwd, [Symbol.dispose]: () => rmSync(cwd, { recursive: true, force: true }) };
}

/** Runs `svc deploy down` there; with keys, at a terminal where they are typed once the question is asked. */
async function down(cwd: string, keys?: string, more = "") {
  const line = `"${process.execPath}" "${join(built.folder, "dist/cli.js")}" deploy down --platform lab --name lab ${more}`;
  const [program, ...args] =
    keys === undefined
      ? ["sh", "-c", line]
      : ["script", "--quiet", "--return", "--command", `stty cols 200; ${line}`, "/dev/null"];
  const { CI: _, ...env } = process.env;
  const child = spawn(program!, args, {
    cwd,
    env: { ...env, HOME: cwd, npm_config_cache: join(cwd, ".cache") },
  });
  let out = "";
  const hear = (chunk: Buffer) => {
    out += chunk.toString();
    if (keys === undefined || keys === "" || !/now\?/.test(out)) return;
    child.stdin.write(keys);
    keys = "";
  };
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  if (keys === undefined) child.stdin.end();
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, out, installed: existsSync(join(cwd, "node_modules", PEERS[1]!)) };
}

requirement("linux").describe("packages that a platform needs and the project lacks", () => {
  it("are installed by the project's own tool if the user agrees, and the command continues", async () => {
    using project = openProject();

    const { code, out, installed } = await down(project.cwd, "y");

    expect(out).toContain(`Run "${COMMAND}" now?`);
    expect(out).toMatch(/added 2 packages/);
    expect(out).toMatch(/nothing to remove/);
    expect([code, installed]).toEqual([0, true]);
  });

  it("stop the command with exit code 5 if the user does not", async () => {
    using project = openProject();

    const { code, out, installed } = await down(project.cwd, "n");

    expect(out).toContain(COMMAND);
    expect([code, installed]).toEqual([5, false]);
  });

  it.each([
    ["without a terminal", undefined, ""],
    ["with --yes, which agrees to a plan and not to this", "", "--yes"],
  ])("stop it with the command to run and exit code 5 %s", async (_, keys, more) => {
    using project = openProject();

    const { code, out, installed } = await down(project.cwd, keys, more);

    expect(out).toContain(COMMAND);
    expect(out).not.toContain("now?");
    expect([code, installed]).toEqual([5, false]);
  });
});

describe("the command that adds packages", () => {
  const withFile = (file: string) => {
    const folder = mkdtempSync(join(tmpdir(), "svc-lock-"));
    mkdirSync(join(folder, "apps/hello"), { recursive: true });
    writeFileSync(join(folder, file), "");
    return { folder, inner: join(folder, "apps/hello") };
  };

  it.each([
    ["pnpm-lock.yaml", "pnpm add one two"],
    ["yarn.lock", "yarn add one two"],
    ["package-lock.json", "npm install one two"],
  ])("is that of the lock file, also of one of a workspace above: %s", (file, command) => {
    const { folder, inner } = withFile(file);

    expect(installCommand(["one", "two"], inner)).toBe(command);
    rmSync(folder, { recursive: true });
  });

  it("names the major version that this package works with", () => {
    expect(installCommand(["google-auth-library"], tmpdir())).toBe("npm install google-auth-library@10");
    expect(installCommand(["@aws-sdk/client-ecs"], tmpdir())).toBe("npm install @aws-sdk/client-ecs@3");
    expect(installCommand(["google-auth-library"], tmpdir(), true)).toBe(
      "npm install --save-dev google-auth-library@10",
    );
  });

  it("names all missing ones of those needed together, and none that is installed", async () => {
    const together = ["valibot", "svc-lab-registry", "svc-lab-client"];

    await expect(
      importPeer("svc-lab-client", { cwd: process.cwd(), together, development: true }),
    ).rejects.toMatchObject({
      exitCode: 5,
      fix: COMMAND,
    });
  });
});
