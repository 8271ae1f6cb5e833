// @alone
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { buildPackage } from "./_built.ts";
import { loadedModules, TRACED } from "./_loader.ts";

const run = promisify(execFile);

const PROGRAM = `
const { createServer, defineAgent } = await import("./dist/index.js");
await import("./dist/ai.js");
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
  await writeFile(join(built.folder, "traced.mjs"), TRACED);
  await writeFile(join(built.folder, "program.mjs"), PROGRAM);

  await run(process.execPath, ["--import", "./traced.mjs", "program.mjs"], {
    cwd: built.folder,
    env: { ...process.env, TRACE: trace, DATA: join(built.folder, "data") },
  });
  const { packages, modules } = await loadedModules(trace);

  expect(packages).toContain("h3");
  expect(modules).toContain("core/service/service.ts");
  expect(modules.filter((name) => /(^cli\/|\/platform\.ts$)/.test(name))).toEqual([]);
  const early = packages.filter((name) =>
    /^(@opentelemetry\/|@aws-sdk\/|@smithy\/|@google-cloud\/|google-auth-library|@modelcontextprotocol\/|@a2a-js\/|@ag-ui\/|uqr|pg|react|edge|cac|@clack\/|jiti|yaml|zod|arktype|ai$|@ai-sdk\/|openai|@openai\/|@langchain\/)/.test(
      name,
    ),
  );
  expect(early).toEqual([]);
});

it("a command about a running service loads nothing of the service", { timeout: 120_000 }, async () => {
  await using built = await buildPackage();
  const trace = join(built.folder, "trace.txt");
  await writeFile(join(built.folder, "traced.mjs"), TRACED);

  for (const args of [["--help"], ["job", "list", "--url", "http://127.0.0.1:1", "--key", "a-key"]]) {
    const command = ["--import", "./traced.mjs", "dist/cli.js", ...args];
    const ended = run(process.execPath, command, {
      cwd: built.folder,
      env: { ...process.env, TRACE: trace },
    });
    // Nothing listens there.
    await ended.catch(({ stderr }: { stderr: string }) => expect(stderr).toContain("127.0.0.1:1"));
  }

  const { packages, modules } = await loadedModules(trace);
  expect(packages.toSorted()).toEqual(["cac", "valibot"]);
  expect(modules).toContain("cli/job/list.ts");
  expect(modules.filter((name) => /^core\/(store|runs)\//.test(name))).toEqual([]);
});
