// @long
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { jobContext } from "../runs/_jobs.ts";
import { docker, freePort } from "./_local-project.ts";
import { tracesOf } from "./_traces.ts";
import { watchArguments } from "./_watch-arguments.ts";
import { KEY, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

describe("backup and restore of a server", () => {
  it("bring back what was there, to a folder and a storage; a kill in between lets no service start", async () => {
    const watch = await watchArguments();
    const at = await site(sshd.config, await freePort());
    const checkout = at.checkout();
    checkout.step("one");
    await checkout.up();
    const { cwd: folder, run } = at.elsewhere();
    const { start, statuses, expectStatuses } = at;
    const [container = ""] = at.running();
    const inside = (...words: string[]) => docker("exec", container, ...words);

    const logs = () =>
      execFileSync("sh", ["-c", `docker logs --tail 20 ${container} 2>&1`], { encoding: "utf8" });

    await start("before");
    await expectStatuses({ before: "awaiting" });
    const copied = await run("backup --to copy --json");
    const shipped = await run(`backup --to file://${folder}/store`);
    await at.ask("/jobs/before/cases/one/update", { answer: { word: "done" } });
    await start("after");
    await expectStatuses({ before: "completed", after: "awaiting" });

    const nowhere = await run("restore --from nowhere --yes");
    const refused = await run("restore --from copy");
    const restored = await run("restore --from copy --yes");
    const first = await statuses();
    // As if the machine had stopped while the files were exchanged.
    inside("sh", "-c", "cd /data && : > INCOMPLETE && rm MANIFEST.json");
    docker("restart", container);
    await expect.poll(() => logs()).toContain("incomplete store");
    const again = await run(`restore --from file://${folder}/store --yes`);

    await watch.expectNone({ SERVICE_API_KEY: KEY }, ["ssh", "docker", "node"]);
    for (const cwd of [checkout.cwd, folder])
      expect(tracesOf(at.serviceName, cwd, { SERVICE_API_KEY: KEY })).toEqual([]);
    expect(copied).toMatchObject({ code: 0, out: expect.stringContaining('"success": true') });
    expect(shipped).toMatchObject({ code: 0, out: expect.stringMatching(/no damage.*Backup/s) });
    expect(nowhere).toMatchObject({
      code: 2,
      err: expect.stringMatching(/There is no backup in nowhere.*Nothing was changed/s),
    });
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining("--yes") });
    expect(restored).toMatchObject({ code: 0, out: expect.stringMatching(/is healthy.*\/data\/replaced-/s) });
    expect(first).toEqual({ before: "awaiting" });
    expect(again).toMatchObject({ code: 0, out: expect.stringContaining("is healthy") });
    expect(await statuses()).toEqual({ before: "awaiting" });
    expect(inside("sh", "-c", "ls -a /data")).not.toMatch(/INCOMPLETE|\.restore/);
    expect(inside("sh", "-c", "ls -d /data/replaced-*").split("\n")).toHaveLength(2);
    expect(readdirSync(folder).sort()).toEqual([".deployment", "copy", "store"]);
  }, 300_000);

  it("has the contents of the files of its jobs", async () => {
    const at = await site(sshd.config, await freePort());
    const checkout = at.checkout();
    checkout.step("one");
    await checkout.up();
    const { run } = at.elsewhere();
    await at.ask("/agents/filer/jobs", { job_context: jobContext("filed"), job_fields: {} });
    await at.expectStatuses({ filed: "completed" });
    const copied = await run("backup --to copy");
    docker("exec", at.running()[0]!, "sh", "-c", "rm -r /data/svc-files");

    const restored = await run("restore --from copy --yes");
    expect([copied.code, restored.code]).toEqual([0, 0]);

    const listed = await at.ask<unknown>("/jobs/filed/files");
    const [, sha256 = ""] = JSON.stringify(listed).match(/"sha256":"([0-9a-f]+)"/) ?? [];
    const response = await fetch(`${at.url}/jobs/filed/files/${sha256}`, { headers: { "x-api-key": KEY } });
    expect(await response.text()).toBe("a note of filed");
  }, 300_000);
});
