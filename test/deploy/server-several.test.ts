// @long
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { newRsaKey } from "../../src/deploy/secrets.ts";
import server from "../../src/plugins/platforms/server/platform.ts";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { jobContext } from "../runs/_jobs.ts";
import { svc } from "./_cli.ts";
import { writeAll } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";
import { postgresImage } from "./_postgres-image.ts";
import { type Engine, startEngine } from "./server/engine.ts";
import { KEY, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd", "engine", "postgres");

let sshd: Sshd;
let engine: Engine;
/** The machines `one` and `two`, each with an engine of its own. */
let config: string;
beforeAll(async () => {
  if (!met) return;
  sshd = await startSshd();
  engine = await startEngine(1_500_000_000);
  const second = sshd.restricted(
    "second",
    `DOCKER_HOST=${engine.host}; export DOCKER_HOST; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"`,
  );
  config = join(sshd.folder, "several.config");
  const named = (file: string, name: string) =>
    readFileSync(file, "utf8").replace("Host server", `Host ${name}`);
  writeFileSync(config, `${named(sshd.config, "one")}\n${named(second, "two")}`);
});
afterAll(async () => {
  await engine?.close();
  await sshd?.close();
});

/** A Postgres that both engines reach at one address. */
async function sharedDatabase(): Promise<string> {
  const name = `svc-test-database-${Math.random().toString(36).slice(2, 8)}`;
  const port = await freePort();
  const gateway = docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}");
  onTestFinished(() => void docker("rm", "--force", "--volumes", name));
  const words = [
    ...["run", "--detach", "--name", name, "--publish", `${port}:5432`, "--tmpfs", "/pgdata"],
    ...["--env", "POSTGRES_USER=service", "--env", "POSTGRES_DB=service", "--env", "PGDATA=/pgdata/data"],
    ...["--env", "POSTGRES_PASSWORD_FILE=/password", "--entrypoint", "sh", postgresImage()],
    ...["-c", "printf secret > /password && exec /entrypoint.sh"],
  ];
  docker(...words);
  const ready = () =>
    docker(
      "exec",
      name,
      "sh",
      "-c",
      "pg_isready --quiet --host=127.0.0.1 --username=service && echo ready || true",
    );
  await expect.poll(ready, { timeout: 60_000 }).toBe("ready");
  return `postgres://service:secret@${gateway}:${port}/service`;
}

describe("a service on several servers with one database", () => {
  it("is updated one server after the other: one of them always responds, and no job is lost", async () => {
    const port = await freePort();
    const at = await site(config, port);
    const { cwd } = at.checkout();
    const env = {
      ...{ PATH: process.env.PATH, HOME: process.env.HOME, SERVICE_API_KEY: KEY },
      ...{ SERVICE_RSA_PRIVATE_KEY: newRsaKey(), SERVICE_DATABASE_URL: await sharedDatabase() },
    };
    const manifest = {
      name: at.name,
      type: "module",
      dependencies: { pg: "^8", "agent-control-service": "*" },
    };
    writeAll(cwd, { "package.json": JSON.stringify(manifest) });
    const settings = (step: string) => ({
      "deploy.yaml": [
        `platform: server\nname: ${at.name}\nhost: one, two\nport: ${port}\nsshConfig: ${config}`,
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
      engine.docker("ps", "--format", "{{.Names}}", "--filter", `name=${at.serviceName}.`),
    ];
    const serving = steps();
    const removed = await run("down --yes --remove-data");

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
    expect(logs.out).toMatch(/one \| .*listening in step first/);
    expect(logs.out).toMatch(/two \| .*listening in step first/);
    for (const names of serving) expect(names.split("\n")).toHaveLength(1);
    expect(removed).toMatchObject({ code: 0 });
    expect(steps()).toEqual(["", ""]);
  }, 900_000);
});
