import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { buildPackage } from "./_built.ts";
import { LOADER } from "./_loader.ts";

const run = promisify(execFile);

const PROGRAM = `
import { register } from "node:module";
register(new URL("./loader.mjs", import.meta.url));
const { createServer, defineAgent } = await import("./dist/index.js");
const agent = defineAgent({ name: "A", version: "1.0.0", methods: { job_start: { run: () => "done" } } });
const service = createServer({ agents: [agent], apiKey: "a-key-of-a-test", dataDir: process.env.DATA, port: 0, logTo: () => {} });
await service.listen();
const response = await service.fetch(new Request(service.url + "/.well-known/health"));
if (!response.ok && response.status !== 404) throw new Error(String(response.status));
await service.close();
`;

it("a service starts without loading packages that it may never need", { timeout: 120_000 }, async () => {
  await using built = await buildPackage();
  const trace = join(built.folder, "trace.txt");
  await writeFile(join(built.folder, "loader.mjs"), LOADER);
  await writeFile(join(built.folder, "program.mjs"), PROGRAM);

  await run(process.execPath, ["program.mjs"], {
    cwd: built.folder,
    env: { ...process.env, TRACE: trace, DATA: join(built.folder, "data") },
  });
  const loaded = (await readFile(trace, "utf8")).split("\n");
  const packages = new Set(
    loaded.flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? []),
  );

  expect(packages).toContain("h3");
  expect(loaded.filter((url) => /\/(platform|cli)\.js$/.test(url))).toEqual([]);
  const early = [...packages].filter((name) =>
    /^(@opentelemetry\/|@aws-sdk\/|@smithy\/|@google-cloud\/|google-auth-library|listhen|pg|edge|cac|@clack\/|jiti|yaml|zod|arktype)/.test(
      name,
    ),
  );
  expect(early).toEqual([]);
});

it("a command about a running service loads nothing of the service", { timeout: 120_000 }, async () => {
  await using built = await buildPackage();
  const trace = join(built.folder, "trace.txt");
  await writeFile(join(built.folder, "loader.mjs"), LOADER);
  const register = `import { register } from "node:module"; register(new URL("./loader.mjs", import.meta.url));`;
  await writeFile(join(built.folder, "register.mjs"), register);

  for (const args of [["--help"], ["job", "list", "--url", "http://127.0.0.1:1", "--key", "a-key"]]) {
    const command = ["--import", "./register.mjs", "dist/cli.js", ...args];
    const ended = run(process.execPath, command, {
      cwd: built.folder,
      env: { ...process.env, TRACE: trace },
    });
    // Nothing listens there.
    await ended.catch(({ stderr }: { stderr: string }) => expect(stderr).toContain("127.0.0.1:1"));
  }

  const loaded = (await readFile(trace, "utf8")).split("\n");
  expect(loaded.filter((url) => url.endsWith("/cli/job/list.js"))).not.toEqual([]);
  expect(loaded.filter((url) => /\/core\/(store|runs)\//.test(url))).toEqual([]);
});
