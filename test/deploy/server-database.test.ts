// @long
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { newRsaKey } from "../../src/deploy/secrets.ts";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { writeAll } from "./_fixture.ts";
import { docker } from "./_local-project.ts";
import { allOf } from "./_server.ts";
import { tracesOf } from "./_traces.ts";
import { watchArguments } from "./_watch-arguments.ts";
import { failure, KEY } from "./server/site.ts";
import { withDatabase } from "./server/with-database.ts";

const { describe, it, met } = requirement("docker", "sshd", "postgres");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

const KEYS = { SERVICE_RSA_PRIVATE_KEY: newRsaKey() };

/** What nobody may read in an argument, an image or a log. */
function secretsWith(password: string) {
  const [, line = ""] = KEYS.SERVICE_RSA_PRIVATE_KEY.split("\n");
  return { POSTGRES_PASSWORD: password, SERVICE_API_KEY: KEY, SERVICE_RSA_PRIVATE_KEY: line };
}

/** A release command that fails unless it reaches the database. */
const CONNECT = `node -e "import('node:net').then(({ connect }) => { const { hostname, port } = new URL(process.env.SERVICE_DATABASE_URL); connect(port, hostname, () => process.exit(0)).on('error', () => process.exit(3)); })"`;

describe("a database beside a service on a server", () => {
  it("has its jobs over updates, a new image of the database, and a removal; the last command removes all", async () => {
    const watch = await watchArguments();
    const { at, mine, image, database, query, start, expectStatuses } = await withDatabase(sshd.config);
    writeAll(mine.cwd, { "deploy.yaml": `variables: { STEP: one }\nrelease: ${JSON.stringify(CONNECT)}\n` });
    const first = await mine.up({ flags: { postgres: image }, env: KEYS });
    rmSync(join(mine.cwd, "deploy.yaml"));
    mine.step("one");
    await start("one");
    await expectStatuses({ one: "awaiting" });
    const idle = await mine.up();
    mine.step("two");
    await mine.up();
    await expectStatuses({ one: "awaiting" });

    const other = `${image}-again`;
    docker("tag", image, other);
    onTestFinished(() => void docker("image", "rm", "--force", other));
    const inside = (command: string) => docker("exec", database, "sh", "-c", command);
    const version = inside("cat /pgdata/data/PG_VERSION");
    inside("echo 9 > /pgdata/data/PG_VERSION");
    const refused = failure(await mine.up({ flags: { postgres: other } }).catch((error: unknown) => error));
    await expectStatuses({ one: "awaiting" });
    inside(`echo ${version} > /pgdata/data/PG_VERSION`);
    const moved = await mine.up({ flags: { postgres: other } });
    await expectStatuses({ one: "awaiting" });
    const log = execFileSync("sh", ["-c", 'docker logs "$0" 2>&1', at.running()[0]!], { encoding: "utf8" });
    const password = docker("exec", database, "cat", "/pgdata/password");
    const secrets = secretsWith(password);
    const traces = tracesOf(at.serviceName, mine.cwd, secrets);
    const published = docker("inspect", "--format", "{{json .NetworkSettings.Ports}}", database);
    const tables = query(
      "select count(*) from pg_tables where tablename like '%Job%' or tablename like '%job%'",
    );

    const { run } = at.elsewhere();
    const told = await run("status");
    docker("stop", database);
    const stopped = JSON.parse((await run("status --json")).out) as { database: unknown };
    docker("start", database);
    const removed = await run("down --yes");
    const gone = await run("status");
    const again = await run("down --yes");
    const left = allOf(at.serviceName);
    const forgetful = failure(await mine.up({ env: KEYS }).catch((error: unknown) => error));
    // The URL of its database is gone: the role of the same files gets another password.
    const returned = await mine.up({ flags: { postgres: image }, env: KEYS });
    await expectStatuses({ one: "awaiting" });
    const next = docker("exec", database, "cat", "/pgdata/password");
    await at.ask("/jobs/one/cases/one/update", { answer: { word: "done" } });
    await expectStatuses({ one: "completed" });
    await mine.down({ flags: { removeData: true }, options: { acceptDataLoss: true } });

    await watch.expectNone({ ...secrets, NEXT_PASSWORD: next }, ["ssh", "docker", "psql", "postgres"]);
    expect(next).not.toBe(password);
    expect(traces).toEqual([]);
    expect(first.plan.actions).toContainEqual(
      expect.objectContaining({ resource_type: "database", resource_name: image, action_type: "create" }),
    );
    expect(first.plan.actions).toContainEqual(
      expect.objectContaining({
        resource_name: "SERVICE_DATABASE_URL",
        description: "generated for this deployment",
      }),
    );
    expect(idle.changed).toBe(false);
    expect(refused.message).toContain(`files of Postgres 9, and ${other} is Postgres ${version}`);
    expect(moved.changed).toBe(true);
    expect(password.length).toBeGreaterThan(40);
    expect(log).not.toBe("");
    expect(log).not.toContain("not encrypted");
    expect(JSON.stringify([first.plan, first.result, moved.plan])).not.toContain(password);
    expect(published).not.toContain("HostPort");
    expect(Number(tables)).toBeGreaterThan(0);
    expect(told.out).toContain(`${other}, running (container and volume ${database})`);
    expect(stopped.database).toEqual({
      image: other,
      container: database,
      volume: database,
      status: "exited",
    });
    const stays = `stays, with jobs and cases: svc deploy up --postgres ${other} uses it`;
    expect(removed).toMatchObject({ code: 0, out: expect.stringContaining(`volume ${database}  ${stays}`) });
    expect(gone.err).toMatch(/postgres stays, with jobs and cases: .*svc deploy up .*--postgres /);
    expect(removed.out).toMatch(/secret SERVICE_RSA_PRIVATE_KEY {2}stays: .*--remove-keys removes it/);
    expect(again).toMatchObject({
      code: 0,
      out: expect.stringMatching(/nothing to remove.*stays, with jobs and cases: svc deploy up --postgres /s),
    });
    expect(forgetful).toMatchObject({
      code: "preflight",
      message: expect.stringContaining(`${database} on server has the jobs of an earlier deployment`),
      fix: expect.stringContaining(
        `--postgres ${image}; the keys that read them are stored on the server. To begin`,
      ),
    });
    expect(returned.plan.actions).toContainEqual(
      expect.objectContaining({
        resource_type: "database",
        description: expect.stringContaining(
          "SERVICE_RSA_PRIVATE_KEY that is stored on the server reads them",
        ),
      }),
    );
    expect(left).toContain(`volume ${database}`);
    expect(left.filter((one) => one.startsWith("container"))).toEqual([]);
    expect(allOf(at.serviceName)).toEqual([]);
  }, 600_000);

  it("is copied and restored as files are, and a release without it needs another place for its jobs", async () => {
    const watch = await watchArguments();
    const { at, mine, image, database, query, start, expectStatuses } = await withDatabase(sshd.config);
    mine.step("one");
    await mine.up({ flags: { postgres: image }, env: KEYS });
    const secrets = secretsWith(docker("exec", database, "cat", "/pgdata/password"));
    const { cwd: folder, run } = at.elsewhere();
    await start("before");
    await expectStatuses({ before: "awaiting" });
    const copied = await run("backup --to copy");
    await start("after");
    await expectStatuses({ before: "awaiting", after: "awaiting" });

    const restored = await run("restore --from copy --yes");
    expect(restored).toMatchObject({
      code: 0,
      out: expect.stringMatching(/is healthy.*the database replaced-/s),
    });
    await expectStatuses({ before: "awaiting" });
    await watch.expectNone(secrets, ["ssh", "docker", "psql"]);
    for (const cwd of [mine.cwd, folder]) expect(tracesOf(at.serviceName, cwd, secrets)).toEqual([]);
    const databases = query("select datname from pg_database order by 1").split("\n");
    const broken = await run("restore --from nothing --yes");
    const homeless = failure(await mine.up({ flags: { postgres: "none" } }).catch((error: unknown) => error));
    const twoStores = failure(
      await mine
        .up({ env: { SERVICE_DATABASE_URL: "postgres://someone:else@database.example/agents" } })
        .catch((error: unknown) => error),
    );
    writeAll(mine.cwd, { "deploy.yaml": "store: file\n" });
    const plain = await mine.up({ flags: { postgres: "none" } });

    expect(copied).toMatchObject({ code: 0 });
    expect(databases).toEqual(
      expect.arrayContaining(["service", expect.stringMatching(/^replaced-\d{8}T\d{6}$/)]),
    );
    expect(databases).not.toContain("restored");
    expect(broken.code).not.toBe(0);
    expect(homeless).toMatchObject({ code: "bad_config", fix: expect.stringContaining("store: file") });
    expect(twoStores).toMatchObject({
      code: "bad_config",
      fix: expect.stringContaining("SERVICE_DATABASE_URL"),
    });
    expect(plain.release.secretNames).not.toContain("SERVICE_DATABASE_URL");
    expect(allOf(at.serviceName)).not.toContain(`container ${database}`);
    expect(allOf(at.serviceName)).toContain(`volume ${database}`);
  }, 600_000);

  it("takes over the jobs of a service with files, which keeps the RSA key that it has made for itself", async () => {
    const { at, mine, image, start, expectStatuses } = await withDatabase(sshd.config);
    mine.step("one");
    await mine.up();
    const own = docker("exec", at.running()[0]!, "cat", "/data/rsa-private-key.pem");
    await start("one");
    await expectStatuses({ one: "awaiting" });
    const { run } = at.elsewhere();

    const copied = await run("backup --to copy");
    const moved = await mine.up({
      flags: { postgres: image },
      options: { generateRsa: true, acceptDataLoss: true, heldJobs: "ok" },
    });
    const restored = await run("restore --from copy --yes");
    await expectStatuses({ one: "awaiting" });
    await at.ask("/jobs/one/cases/one/update", { answer: { word: "done" } });
    await expectStatuses({ one: "completed" });

    const serving = at.running().find((name) => !name.endsWith(".postgres"))!;
    expect(copied).toMatchObject({ code: 0 });
    expect(restored).toMatchObject({ code: 0, out: expect.stringContaining("is healthy") });
    expect(moved.plan.actions).toContainEqual(
      expect.objectContaining({
        resource_name: "SERVICE_RSA_PRIVATE_KEY",
        description: "the key that the service has made for itself",
      }),
    );
    expect(docker("exec", serving, "sh", "-c", "cat /run/secrets/*/SERVICE_RSA_PRIVATE_KEY")).toBe(own);
  }, 600_000);

  it("stores the keys that a service with files has made, where it is to have generated ones", async () => {
    const { at, mine } = await withDatabase(sshd.config);
    const env = { SERVICE_API_KEY: undefined } as never;
    mine.step("one");
    await mine.up({ env });
    const read = (path: string) => docker("exec", at.running()[0]!, "sh", "-c", `cat ${path}`);
    const own = [read("/data/api-key"), read("/data/rsa-private-key.pem")];

    const kept = await mine.up({ options: { generateApiKey: true, generateRsa: true }, env });

    expect(kept).toMatchObject({ changed: true, health: { status: "healthy" } });
    expect(own.map(({ length }) => length > 30)).toEqual([true, true]);
    expect([read("/run/secrets/*/SERVICE_API_KEY"), read("/run/secrets/*/SERVICE_RSA_PRIVATE_KEY")]).toEqual(
      own,
    );
  }, 300_000);
});
