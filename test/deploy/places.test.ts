// @long
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openDeployments } from "../../src/deploy/deployment.ts";
import { DeployError } from "../../src/deploy/errors.ts";
import { DEFAULT_OPTIONS } from "../../src/deploy/options.ts";
import { svc } from "./_cli.ts";
import { type Stage, stage, writeAll } from "./_fixture.ts";

const URL = "postgres://user:a-long-password@database.example/agents";
const ENV = { PATH: process.env.PATH, SERVICE_DATABASE_URL: URL };

/** A project that is deployed to three places, on one database. */
async function places(more = "") {
  const at = await stage({ locks: true, commands: true });
  const text = (step: string) =>
    [
      "platform: memory\nname: hello\nat: a,b,c\npublicUrl: https://agents.example",
      "generateApiKey: true\ngenerateRsa: true",
      `variables: { STEP: ${step} }\nrelease: echo ran >> released.txt`,
      `hooks: { beforeBuild: "echo built >> built.txt" }\n${more}`,
    ].join("\n");
  writeAll(at.cwd, {
    "package.json": JSON.stringify({ name: "hello", type: "module", dependencies: { pg: "^8" } }),
    ".dockerignore": "released.txt\nbuilt.txt\n",
    "deploy.yaml": text("one"),
  });
  const run = (line: string, env: Readonly<Record<string, string>> = {}) =>
    svc(at, line, { env: { ...ENV, ...env } });
  return {
    at,
    run,
    up: (env?: Readonly<Record<string, string>>) => run("up --yes --no-check", env),
    step: (step: string) => writeAll(at.cwd, { "deploy.yaml": text(step) }),
    lines: (file: string) =>
      existsSync(join(at.cwd, file)) ? readFileSync(join(at.cwd, file), "utf8").trim().split("\n").length : 0,
  };
}

const NAMES = ["hello-dev.a", "hello-dev.b", "hello-dev.c"];

/** Values of a variable or secret in all places. */
function everywhere({ world }: Stage, name: string): (string | undefined)[] {
  const { services, secrets } = world.read();
  return NAMES.map((place) => {
    const one = services[place];
    const serving = one?.revisions.find((revision) => revision.name === one.serving);
    const version = serving?.secrets[name]?.split(":")[1];
    return version === undefined ? serving?.env[name] : secrets[place]?.[name]?.all[Number(version) - 1];
  });
}

describe("a deployment in several places", () => {
  it("is made in one place after the other, with one key for all and one run of what runs once", async () => {
    const { at, up, run, step, lines } = await places();

    const planned = await run("plan --no-check");
    const first = await up();
    const calls = at.world.read().calls.filter((call) => call === "service.create").length;
    const keys = everywhere(at, "SERVICE_API_KEY");
    const again = await up();
    step("two");
    const second = await up();

    expect(planned).toMatchObject({ code: 0, err: expect.stringMatching(/== a[\s\S]*== b[\s\S]*== c/) });
    expect(first).toMatchObject({ code: 0, err: expect.stringMatching(/== a[\s\S]*== b[\s\S]*== c/) });
    expect(calls).toBe(3);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toMatch(/^[\w-]{43}$/);
    expect(new Set(everywhere(at, "SERVICE_RSA_PRIVATE_KEY")).size).toBe(1);
    expect(everywhere(at, "SERVICE_DATABASE_URL")).toEqual([URL, URL, URL]);
    expect(again.out.match(/there was nothing to deploy/g)).toHaveLength(3);
    expect(second.code).toBe(0);
    expect(everywhere(at, "STEP")).toEqual(["two", "two", "two"]);
    expect(everywhere(at, "SERVICE_API_KEY")).toEqual(keys);
    // Once for each release, and once for each command.
    expect(lines("released.txt")).toBe(2);
    expect(lines("built.txt")).toBe(3);
  });

  it("ends at the place that fails, names what serves where, and one command brings all back", async () => {
    const { at, up, run, step } = await places();
    await up();
    step("two");
    at.world.change(({ faults }) => {
      faults["service.update hello-dev.b"] = "fail";
    });

    const failed = await up();
    const mixed = everywhere(at, "STEP");
    const unnamed = await run("rollback --yes");
    const [, revision = ""] = /rollback --to (\S+?), or/.exec(failed.err) ?? [];
    const unknown = await run("rollback --yes --to nothing");
    const back = await run(`rollback --yes --to r1`);

    expect(failed.code).not.toBe(0);
    expect(failed.err).toContain("a serves revision r2, b serves revision r1, c serves revision r1");
    expect(revision).toBe("r2");
    expect(failed.err).toContain("svc deploy rollback --to r1");
    expect(mixed).toEqual(["two", "one", "one"]);
    expect(unnamed).toMatchObject({ code: 2, err: expect.stringContaining("rollback --to r1") });
    expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining("no such revision") });
    expect(back).toMatchObject({ code: 0, out: expect.stringContaining("on b already") });
    expect(everywhere(at, "STEP")).toEqual(["one", "one", "one"]);
  });

  it("is finished by the next run, which keeps the key that the first place has", async () => {
    const { at, up, lines } = await places();
    at.world.change(({ faults }) => {
      faults["service.create hello-dev.b"] = "fail";
    });
    const failed = await up();
    const [key] = everywhere(at, "SERVICE_API_KEY");
    at.world.change(({ faults }) => {
      delete faults["service.create hello-dev.b"];
    });
    const finished = await up();

    expect(failed.err).toContain("b serves nothing, c serves nothing");
    expect(finished.code).toBe(0);
    expect(everywhere(at, "SERVICE_API_KEY")).toEqual([key, key, key]);
    expect(lines("released.txt")).toBe(1);
  });

  it("rolls back to one release everywhere, and rotates a key once for all places that serve the same", async () => {
    const { at, up, run, step } = await places();
    await up();
    const [former] = everywhere(at, "SERVICE_API_KEY");
    step("two");
    await up();

    const rotated = await run("rotate-key --key api --yes --no-check");
    const keys = everywhere(at, "SERVICE_API_KEY");
    const before = everywhere(at, "SERVICE_PREVIOUS_API_KEY");
    const back = await run("rollback --yes");
    const twice = await run("rollback --yes --to r1");
    step("three");
    at.world.change(({ faults }) => {
      faults["service.update hello-dev.c"] = "fail";
    });
    await up();
    const refused = await run("rotate-key --key api --yes --no-check");

    expect(rotated.code).toBe(0);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).not.toBe(former);
    expect(before).toEqual([former, former, former]);
    expect(back.code).toBe(0);
    expect(twice.code).toBe(0);
    expect(everywhere(at, "STEP")).toEqual(["three", "three", "one"]);
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining("Not all places serve the same") });
  });

  it("changes nothing while another run holds one of them", async () => {
    const { at, up } = await places();
    at.world.change(({ locks }) => {
      locks["hello-dev.c"] = "somebody else";
    });

    const refused = await up();

    expect(refused).toMatchObject({ code: 6, err: expect.stringContaining("somebody else") });
    expect(at.world.read().calls).toEqual([]);
    expect(Object.keys(at.world.read().locks)).toEqual(["hello-dev.c"]);
  });

  it("shows the logs of the others where one place has nothing", async () => {
    const { up, run } = await places();
    await up();
    const removed = await run("down --yes --at b");

    const logs = await run("logs");
    const json = await run("logs --json");

    expect(removed.code).toBe(0);
    for (const name of ["a", "c"]) expect(logs.out).toContain(`${name} | line two`);
    expect(logs).toMatchObject({ code: 1, err: expect.stringContaining("is not deployed on memory (b)") });
    expect(Object.keys(JSON.parse(json.out).places)).toEqual(expect.arrayContaining(["a", "b", "c"]));
  });

  it("is read, entered and removed as a whole", async () => {
    const { at, up, run } = await places();
    const planned = await run("plan --no-check");
    const made = await up();

    const shown = await run("status");
    const status = await run("status --json");
    const logs = await run("logs");
    const shell = await run("exec");
    const removed = await run("down --yes");
    const gone = await run("status");

    const { places: all } = JSON.parse(status.out) as { places: Record<string, { health: unknown }> };
    expect(Object.keys(all)).toEqual(["a", "b", "c"]);
    expect(all.b).toMatchObject({ deployed: true, health: { status: "healthy" } });
    for (const name of ["a", "b", "c"]) expect(logs.out).toContain(`${name} | line two`);
    expect(shell).toMatchObject({ code: 2, err: expect.stringContaining("Name one of a, b, c") });
    for (const name of ["a", "b", "c"]) {
      expect(shown.out).toContain(`hello-dev on memory (${name})`);
      expect(planned.out).toContain(`Plan for hello-dev on memory (${name})`);
    }
    expect(made.out).toMatch(
      /Public URL +https:\/\/agents\.example\n +Admin +https:\/\/agents\.example\/admin\//,
    );
    expect(removed.code).toBe(0);
    expect(at.world.read().services).toEqual({});
    // What one of them says does not keep the others from being asked.
    expect(gone.err.match(/is not deployed on memory/g)).toHaveLength(3);
  });

  it.each([
    ["without a database", {}, "publicUrl: https://agents.example", "files of its own"],
    [
      "with a bucket",
      {},
      "publicUrl: https://agents.example\nstorage: gs://agents/jobs",
      "one instance at a time",
    ],
    ["without an address", { SERVICE_DATABASE_URL: URL }, "", "one address"],
  ])("is refused %s", async (_, env, settings, message) => {
    const at = await stage();
    writeAll(at.cwd, {
      "package.json": JSON.stringify({ name: "hello", type: "module", dependencies: { pg: "^8" } }),
      "deploy.yaml": `platform: memory\nname: hello\nat: a,b\ngenerateApiKey: true\ngenerateRsa: true\n${settings}\n`,
    });

    const refused = await svc(at, "up --yes --no-check", { env: { PATH: process.env.PATH, ...env } });

    expect(refused).toMatchObject({ code: 5, err: expect.stringContaining(message) });
    expect(at.world.read().calls).toEqual([]);
  });

  it("is left by all places where one of them cannot be reached", async () => {
    const at = await stage();
    const closed: unknown[] = [];
    const platform = {
      ...at.platform,
      async connect(...[target, tools]: Parameters<typeof at.platform.connect>) {
        if (target.flags.at === "c") throw new DeployError("failed", "c does not answer");
        const session = await at.platform.connect(target, tools);
        return { ...session, close: async () => void closed.push(target.flags.at) };
      },
    };

    const opened = openDeployments({
      ...{
        platform: platform as never,
        options: { ...DEFAULT_OPTIONS, name: "hello" },
        flags: { at: "a,b,c" },
      },
      ...{ cwd: at.cwd, env: ENV, command: "svc deploy up", emit: () => {} },
    });

    await expect(opened).rejects.toThrow("c does not answer");
    expect(closed).toEqual(["a", "b"]);
  });
});
