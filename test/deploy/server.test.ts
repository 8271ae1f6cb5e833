// @long
import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { jobContext } from "../runs/_jobs.ts";
import { docker, freePort } from "./_local-project.ts";
import { allOf } from "./_server.ts";
import { failure, KEY, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

describe("svc deploy to a server over ssh", () => {
  it("keeps a job open over three updates, a rollback and a removal, from any checkout", async () => {
    const at = await site(sshd.config, await freePort());
    const mine = at.checkout();
    mine.step("one");

    const first = await mine.up();
    await at.ask("/agents/asker/jobs", { job_context: jobContext("open"), job_fields: {} });
    const job = () => at.ask<{ status: string; message: string }>("/jobs/open");
    await expect.poll(async () => (await job()).status, { timeout: 30_000 }).toBe("awaiting");
    // All its processes but the first are killed; the engine starts the container again.
    const [killed = ""] = at.running();
    spawnSync("docker", ["exec", killed, "sh", "-c", "kill -9 -1"]);
    const restarts = () => docker("inspect", "--format", "{{.RestartCount}}", killed);
    await expect.poll(restarts, { timeout: 30_000 }).not.toBe("0");
    await expect
      .poll(async () => (await job().catch(() => undefined))?.status, { timeout: 30_000 })
      .toBe("awaiting");
    const deployment = await mine.open("svc deploy plan");
    const crashed = await deployment.session.inspect();
    let open = "";
    for await (const bytes of deployment.session.openJobs!()) open += Buffer.from(bytes).toString();
    const command = ["sh", "-c", 'cat; echo "$1"; exit 7', "sh", "it's $HOME"];
    const [program = "", ...words] = await deployment.session.enter!(command, false);
    const inside = spawnSync(program, words, { encoding: "utf8", input: "given, " });
    await deployment.close();
    expect(inside).toMatchObject({ status: 7, stdout: "given, it's $HOME\n" });
    expect(JSON.parse(open)).toMatchObject({ job: { id: "open" }, log: expect.any(Array) });
    const idle = await mine.up();
    const [before] = at.running();
    mine.step("two");
    await mine.up();
    const [after] = at.running();
    const theirs = at.checkout();
    theirs.step("three");
    await theirs.up();
    expect((await job()).status).toBe("awaiting");
    mine.step("four", { SICK: "exit" });
    const sick = await mine.up().catch(failure);
    const back = await theirs.rollback();
    const { removed } = await theirs.down();
    expect(at.running()).toEqual([]);
    expect(allOf(at.serviceName)).toContain(`volume ${at.serviceName}.data`);
    theirs.step("five");
    await theirs.up();
    await at.ask("/jobs/open/cases/one/update", { answer: { word: "done" } });
    await expect.poll(async () => (await job()).message, { timeout: 30_000 }).toBe("done in five");

    const volumes = docker("volume", "ls", "--quiet", "--filter", `name=${at.serviceName}.SERVICE_API_KEY`);
    const inspected = docker("inspect", ...at.running(), ...volumes.split("\n"));
    const plans: string[] = [];
    await theirs.down({
      flags: { removeData: true },
      onEvent: (event) => event.type === "plan" && plans.push(event.plan.actions[0]!.description),
    });

    expect(first.result).toMatchObject({ success: true, service_url: at.url, health_status: "healthy" });
    expect(crashed?.status).toMatch(/^running, restarted (once|\d+ times)$/);
    expect(idle.changed).toBe(false);
    expect(before).not.toBe(after);
    expect(sick).toMatchObject({ code: "rolled_back", exitCode: 3 });
    expect(sick).toMatchObject({ log: expect.arrayContaining(["cannot find the controller"]) });
    expect(back.release.env).toMatchObject({ STEP: "two" });
    expect(removed).toEqual([`service ${at.serviceName}`, "secret SERVICE_API_KEY"]);
    expect(plans).toEqual([expect.stringContaining("with its data and images")]);
    expect(inspected).not.toContain(KEY);
    expect(JSON.parse(inspected)[0].HostConfig).toMatchObject({
      ReadonlyRootfs: true,
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      RestartPolicy: { Name: "always" },
      LogConfig: { Type: "json-file", Config: { "max-size": "10m", "max-file": "3" } },
    });
    expect(allOf(at.serviceName)).toEqual([]);
  }, 300_000);
});
