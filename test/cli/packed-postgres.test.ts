import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { sharedRsaKey } from "../../src/testing/rsa-key.ts";
import { packPackage } from "../_built.ts";
import { sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { jobContext } from "../runs/_jobs.ts";
import { beginSvc, PROCESS_TIME, project, REPOSITORY, svc } from "./_svc.ts";

const KEY = "a-key-of-the-packed-package";
const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";
const adder = defineAgent({
  name: "Adder", version: "1.0.0",
  methods: { job_start: { run: ({ job }) => job.step("add", () => 1 + 2) } },
});
export default createServer({ agents: [adder] });
`;

/** A folder with what the package publishes and with its dependencies, but with nothing that is optional. */
async function unpacked(): Promise<string> {
  const empty = await project();
  const own = join(empty, "own");
  await mkdir(own);
  await promisify(execFile)("tar", ["-xzf", (await packPackage()).tarball, "-C", own]);
  const cwd = await project({ "src/controller.ts": CONTROLLER }, join(own, "package"));
  const { dependencies } = JSON.parse(await readFile(join(own, "package/package.json"), "utf8"));
  for (const name of ["valibot", ...Object.keys(dependencies)]) {
    const place = join(own, "node_modules", name);
    await mkdir(dirname(place), { recursive: true });
    await symlink(join(REPOSITORY, "node_modules", name), place);
  }
  return cwd;
}

requirement("postgres").it(
  "the published package says that pg is missing, and keeps its jobs in the database once it is there",
  async () => {
    const cluster = await sharedCluster();
    await cluster.query("create database packed");
    const cwd = await unpacked();
    const env = {
      ...{ SERVICE_DATABASE_URL: cluster.url.replace("/postgres?", "/packed?"), SERVICE_API_KEY: KEY },
      ...{ SERVICE_RSA_PRIVATE_KEY: sharedRsaKey(), SERVICE_PORT: "0" },
    };

    const without = await svc(["start"], { cwd, env });

    expect(without).toMatchObject({ code: 1, stderr: expect.stringContaining("Run: npm install pg@8") });
    expect(without.stderr).not.toMatch(/\n\s+at /);

    const own = (await promisify(execFile)("readlink", ["-f", "node_modules/agent-control-service"], { cwd }))
      .stdout;
    await symlink(join(REPOSITORY, "node_modules/pg"), join(dirname(own.trim()), "node_modules/pg"));
    const service = beginSvc(["start"], { cwd, env });
    await service.prints(/Press Ctrl-C to stop/);
    const url = (await readFile(join(cwd, "data/address"), "utf8")).trim();
    const response = await fetch(`${url}/agents/adder/jobs`, {
      method: "POST",
      headers: { "x-api-key": KEY, "content-type": "application/json", prefer: "wait=60" },
      body: JSON.stringify({ job_context: jobContext("job-1") }),
    });
    service.process.kill("SIGTERM");

    expect(await response.json()).toMatchObject({ status: "completed", result: 3 });
    expect(await service.finished).toMatchObject({ code: 0 });
    // Of the store there is nothing in the folder.
    expect((await readdir(join(cwd, "data"))).filter((name) => /jsonl|MANIFEST|key/.test(name))).toEqual([]);
  },
  PROCESS_TIME,
);
