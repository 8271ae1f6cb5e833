import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { composeFile } from "../../src/deploy/export/compose.ts";
import { svc } from "./_cli.ts";
import { stage, temporaryProject, writeAll } from "./_fixture.ts";

const SETTINGS = `platform: memory
name: hello
variables:
  PRICE: 5$ or \${MORE}
secrets:
  ERP_TOKEN:
`;

/** The command that checks compose files, in its spelling here. */
function findCompose(): readonly string[] | undefined {
  return [["docker", "compose"], ["docker-compose"]].find(([command = "", ...words]) => {
    try {
      execFileSync(command, [...words, "version"], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  });
}

describe("svc deploy export compose", () => {
  it("writes what up would release, without a secret, and changes nothing", async () => {
    const at = await stage();
    writeAll(at.cwd, { "deploy.yaml": SETTINGS });
    const env = { PATH: process.env.PATH, ERP_TOKEN: "planted-value" };

    const folder = temporaryProject({});
    const line = `export compose --port 8100 --to ${folder}/compose.yaml`;

    const made = await svc(at, line, { env });
    const twice = await svc(at, line, { env });
    const { out } = await svc(at, "export compose --json", { env });

    const text = readFileSync(join(folder, "compose.yaml"), "utf8");
    expect(made).toMatchObject({ code: 0, out: expect.stringMatching(/Wrote .*compose.yaml.*ERP_TOKEN/s) });
    expect(twice).toMatchObject({ code: 2, err: expect.stringContaining("already exists") });
    expect(JSON.parse(out)).toMatchObject({ format: "compose", secrets: ["ERP_TOKEN"], file: null });
    expect(text + out).not.toContain("planted-value");
    expect(parse(text).services.service).toMatchObject({
      image: expect.stringContaining("memory.example/hello-dev:"),
      read_only: true,
      ports: ["8100:8100"],
      environment: {
        PRICE: "5$$ or $$" + "{MORE}",
        SERVICE_PORT: "8100",
        ERP_TOKEN: "$" + "{ERP_TOKEN:?is missing}",
      },
      volumes: ["data:/data"],
    });
    expect(at.world.read().calls).toEqual([]);
    expect(existsSync(join(at.cwd, ".deployment"))).toBe(false);
    const compose = findCompose();
    if (compose === undefined) return console.warn("skipped: compose config: no compose command found");
    const [command = "", ...words] = compose;
    const read = (secrets: Record<string, string>) =>
      execFileSync(command, [...words, "--file", "compose.yaml", "config"], {
        cwd: folder,
        encoding: "utf8",
        env: { PATH: process.env.PATH ?? "", ...secrets },
        stdio: ["ignore", "pipe", "ignore"],
      });
    expect(parse(read({ ERP_TOKEN: "here" })).services.service.environment).toMatchObject({
      ERP_TOKEN: "here",
    });
    expect(() => read({})).toThrow();
  });

  it("has no volume with a database, and the limits and labels of a server", () => {
    const spec = { image: "hello:1", port: 8000, env: {}, secrets: { SERVICE_DATABASE_URL: undefined } };

    const { services, volumes } = parse(
      composeFile(spec, { memory: "512m", cpus: "1.5", labels: { team: "a$b" } }),
    );

    expect(services.service).toMatchObject({ mem_limit: "512m", cpus: 1.5, labels: { team: "a$$b" } });
    expect([services.service.volumes, volumes]).toEqual([undefined, undefined]);
  });

  it("names the formats where a platform has no such one", async () => {
    const at = await stage();
    writeAll(at.cwd, { "deploy.yaml": SETTINGS });

    const other = await svc(at, "export cloud-run");
    const none = await svc(at, "export");

    expect(other).toMatchObject({ code: 2, err: expect.stringMatching(/"cloud-run".*compose/s) });
    expect(none).toMatchObject({ code: 2, err: expect.stringContaining("The format is missing") });
  });
});
