// @long
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect } from "vitest";
import { newRsaKey } from "../../src/deploy/secrets.ts";
import server from "../../src/plugins/platforms/server/platform.ts";
import { requirement } from "../_require.ts";
import { jobContext } from "../runs/_jobs.ts";
import { svc } from "./_cli.ts";
import { writeAll } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";
import { type Machines, sharedDatabase, startMachines } from "./server/machines.ts";
import { KEY, site } from "./server/site.ts";
import { writeManifest } from "./server/with-database.ts";

const { describe, it, met } = requirement("docker", "sshd", "engine", "postgres");

let machines: Machines;
beforeAll(async () => {
  if (met) machines = await startMachines();
});
afterAll(() => machines?.close());

describe("a service on several servers with one database", () => {
  it("is updated one server after the other: one of them always responds, and no job is lost", async () => {
    const port = await freePort();
    const at = await site(machines.config, port);
    const { cwd } = at.checkout();
    const env = {
      ...{ PATH: process.env.PATH, HOME: process.env.HOME, SERVICE_API_KEY: KEY },
      ...{ SERVICE_RSA_PRIVATE_KEY: newRsaKey(), SERVICE_DATABASE_URL: await sharedDatabase() },
    };
    writeManifest(cwd, at.name);
    const settings = (step: string) => ({
      "deploy.yaml": [
        `platform: server\nname: ${at.name}\nhost: one, two\nport: ${port}\nsshConfig: ${machines.config}`,
        `publicUrl: https://agents.example\nvariables: { STEP: ${step} }\n`,
      ].join("\n"),
    });
    const run = async (line: string) => {
      const ran = await svc({ cwd } as never, line, {
        env,
        platforms: { server: async () => ({ default: server as never }) },
      });
      if (process.env.SVC_SHOW) console.log(line, ran);
      return ran;
    };
    // What each of them binds stays: on this machine their ports differ by the address.
    const urls = [`http://127.0.0.1:${port}`, `http://127.0.0.2:${port}`];
    const ask = async (url: string, path: string, body?: unknown) => {
      const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
      const headers = { "x-api-key": KEY, "content-type": "application/json" };
      const response = await fetch(`${url}${path}`, { headers, ...sent });
      if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
      return (await response.json()) as Record<string, unknown>;
    };
    /** As a load balancer does: the next server, where one does not respond. */
    const balanced = (turn: number, path: string, body?: unknown) =>
      ask(urls[turn % 2]!, path, body).catch(() => ask(urls[(turn + 1) % 2]!, path, body));

    writeAll(cwd, settings("first"));
    const planned = await run("plan --no-check");
    for (const [index, host] of ["one", "two"].entries()) {
      const ran = await run(`up --yes --no-check --host ${host} --bind 127.0.0.${index + 1}`);
      expect(ran).toMatchObject({ code: 0 });
    }
    const idle = await run("up --yes --no-check");
    const ofEach = await run("up --yes --no-check --postgres postgres:17");
    const ofOne = await run("up --yes --no-check --domain agents.example");
    writeAll(cwd, settings("second"));
    let isRolling = true;
    const rolled = run("up --yes --no-check").finally(() => {
      isRolling = false;
    });
    const started: string[] = [];
    const refused: string[] = [];
    for (let turn = 0; isRolling; turn++) {
      const id = `job-${turn}`;
      await balanced(turn, "/agents/asker/jobs", { job_context: jobContext(id), job_fields: {} }).then(
        () => started.push(id),
        (error: Error) => refused.push(error.message),
      );
      await delay(250);
    }
    const second = await rolled;
    const status = await run("status --json");
    const twice = await run("up --yes --no-check");
    for (const [turn, id] of started.entries()) {
      await expect
        .poll(async () => (await balanced(turn, `/jobs/${id}`)).status, { timeout: 60_000 })
        .toBe("awaiting");
      await balanced(turn, `/jobs/${id}/cases/one/update`, { answer: { word: "done" } });
    }
    const messages: unknown[] = [];
    for (const [turn, id] of started.entries()) {
      await expect
        .poll(async () => (await balanced(turn, `/jobs/${id}`)).status, { timeout: 60_000 })
        .toBe("completed");
      messages.push((await balanced(turn, `/jobs/${id}`)).message);
    }
    const back = await run("rollback --yes");
    const logs = await run("logs");
    const steps = () => [
      docker("ps", "--format", "{{.Names}}", "--filter", `name=${at.serviceName}.`),
      machines.engine.docker("ps", "--format", "{{.Names}}", "--filter", `name=${at.serviceName}.`),
    ];
    const serving = steps();
    docker("stop", serving[0]!);
    const copied = await run("backup --to copy --json");
    const removed = await run("down --yes --remove-data");

    expect(planned.out).toContain("on server (one)");
    expect(planned.out).toContain("Files, kept over updates and restarts");
    expect(planned.err).toContain("the load balancer reaches the service over plain http");
    expect(idle.out.match(/there was nothing to deploy/g)).toHaveLength(2);
    expect(ofEach).toMatchObject({
      code: 5,
      err: expect.stringContaining("would run a Postgres of its own"),
    });
    expect(ofOne).toMatchObject({
      code: 5,
      err: expect.stringContaining("several servers cannot serve agents.example"),
    });
    expect(second).toMatchObject({ code: 0, err: expect.stringMatching(/== one[\s\S]*== two/) });
    expect(refused).toEqual([]);
    expect(started.length).toBeGreaterThan(2);
    expect(messages).toEqual(started.map(() => "done in second"));
    const { places } = JSON.parse(status.out) as { places: Record<string, { health: { status: string } }> };
    expect(Object.values(places).map(({ health }) => health.status)).toEqual(["healthy", "healthy"]);
    expect(twice.out.match(/there was nothing to deploy/g)).toHaveLength(2);
    expect(back).toMatchObject({ code: 0 });
    // The server that comes first does not run: the next one has the same jobs.
    expect(copied).toMatchObject({ code: 0 });
    expect(JSON.parse(copied.out)).toMatchObject({ places: { two: { success: true, to: "copy" } } });
    expect(logs.out).toMatch(/one \| .*listening in step first/);
    expect(logs.out).toMatch(/two \| .*listening in step first/);
    for (const names of serving) expect(names.split("\n")).toHaveLength(1);
    expect(removed).toMatchObject({ code: 0 });
    expect(steps()).toEqual(["", ""]);
  }, 900_000);
});
