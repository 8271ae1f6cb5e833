import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { clean } from "../../src/deploy/clean.ts";
import { doctor } from "../../src/deploy/doctor.ts";
import { down } from "../../src/deploy/down.ts";
import { rollback } from "../../src/deploy/rollback.ts";
import { status } from "../../src/deploy/status.ts";
import { up } from "../../src/deploy/up.ts";
import type { Stage } from "./_fixture.ts";
import { stage, writeAll } from "./_fixture.ts";

const yes = async () => true;

async function using<T>(
  at: Stage,
  body: (deployment: Awaited<ReturnType<Stage["open"]>>) => Promise<T>,
): Promise<T> {
  const deployment = await at.open({ generateApiKey: true });
  try {
    return await body(deployment);
  } finally {
    await deployment.close();
  }
}

async function deployed(): Promise<Stage> {
  const at = await stage({ predictable: true });
  await using(at, (deployment) => up(deployment, yes));
  return at;
}

async function deployChange(at: Stage, value: string): Promise<void> {
  writeAll(at.cwd, { ".deployment/config.yaml": `environment: {CHANGE: "${value}"}` });
  await using(at, (deployment) => up(deployment, yes));
}

describe("svc deploy down", () => {
  it("scales to zero, removes service and secrets, and leaves images and other services", async () => {
    const at = await deployed();
    at.world.change((world) => {
      world.services["other-dev"] = { id: "x", revisions: [], serving: undefined, instances: 1, pending: 0 };
      world.secrets["other-dev"] = { SERVICE_API_KEY: { value: "v", hash: "h", version: 1, all: ["v"] } };
    });

    const { removed } = await using(at, (deployment) => down(deployment, yes));

    const world = at.world.read();
    expect(removed).toEqual(["service hello-dev", "secret SERVICE_API_KEY"]);
    expect(world.calls.slice(-3)).toEqual([
      "service.scale",
      "service.delete",
      "secret.delete SERVICE_API_KEY",
    ]);
    expect(Object.keys(world.services)).toEqual(["other-dev"]);
    expect(world.secrets["other-dev"]).toBeDefined();
    expect(Object.keys(world.images)).toHaveLength(1);
    expect(existsSync(join(at.cwd, ".deployment/state.json"))).toBe(false);
  });

  it("reports at a second run that nothing is left", async () => {
    const at = await deployed();
    await using(at, (deployment) => down(deployment, yes));
    const before = at.world.read().calls.length;

    const { removed } = await using(at, (deployment) => down(deployment, yes));

    expect(removed).toEqual([]);
    expect(at.world.read().calls).toHaveLength(before);
  });

  it("changes nothing if it is declined", async () => {
    const at = await deployed();
    const before = at.world.read().calls.length;

    await expect(using(at, (deployment) => down(deployment, async () => false))).rejects.toThrow("declined");

    expect(at.world.read().calls).toHaveLength(before);
  });

  it("continues with what is left after a failure", async () => {
    const at = await deployed();
    at.world.change((world) => {
      world.faults["secret.delete SERVICE_API_KEY"] = "fail";
    });

    await expect(using(at, (deployment) => down(deployment, yes))).rejects.toMatchObject({
      outcome: expect.stringContaining("service.delete"),
    });
    at.world.change((world) => {
      delete world.faults["secret.delete SERVICE_API_KEY"];
    });
    await using(at, (deployment) => down(deployment, yes));

    expect(at.world.read().secrets["hello-dev"]).toEqual({});
  });
});

describe("svc deploy rollback", () => {
  it("makes the previous release serve again, and the next deployment replaces it", async () => {
    const at = await deployed();
    await deployChange(at, "one");

    const { from, release, health } = await using(at, (deployment) =>
      rollback(deployment, { to: undefined, consent: yes }),
    );
    const serving = at.world.read().services["hello-dev"]?.serving;
    await using(at, (deployment) => up(deployment, yes));

    expect([from.revision, release.revision, health.status, serving]).toEqual(["r2", "r1", "healthy", "r1"]);
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r2");
  });

  it("goes further back after a rollback, not to the release that was taken out of service", async () => {
    const at = await deployed();
    await deployChange(at, "one");
    await deployChange(at, "two");
    const back = () =>
      using(at, async (deployment) => {
        const { session } = deployment;
        const { revision: serving } = (await session.inspect())!;
        const all = ["r3", "r2", "r1"].map((revision) => ({
          ...{ id: "hello-dev", revision, image: undefined, url: undefined, status: "ready" },
        }));
        expect(["r3", "r2"]).toContain(serving);
        Object.assign(session, { history: async () => all });
        return (await rollback(deployment, { to: undefined, consent: yes })).release.revision;
      });

    expect([await back(), await back()]).toEqual(["r2", "r1"]);
  });

  it("goes to a named revision, and refuses an unknown one with a list of the existing ones", async () => {
    const at = await deployed();
    await deployChange(at, "one");
    await deployChange(at, "two");

    const unknown = using(at, (deployment) => rollback(deployment, { to: "r9", consent: yes }));
    await expect(unknown).rejects.toMatchObject({ exitCode: 2, fix: "Choose one of r2, r1" });
    await using(at, (deployment) => rollback(deployment, { to: "r1", consent: yes }));

    expect(at.world.read().services["hello-dev"]?.serving).toBe("r1");
  });

  it("reports that there is nothing to roll back to", async () => {
    const at = await deployed();

    await expect(
      using(at, (deployment) => rollback(deployment, { to: undefined, consent: yes })),
    ).rejects.toMatchObject({ message: "There is no release before revision r1" });
  });

  it("names the serving release by its image if the platform has no revision numbers", async () => {
    const at = await deployed();

    const refused = using(at, (deployment) => {
      const inspect = deployment.session.inspect.bind(deployment.session);
      const unnumbered = async () => ({ ...(await inspect())!, revision: undefined });
      Object.assign(deployment.session, { inspect: unnumbered });
      return rollback(deployment, { to: undefined, consent: yes });
    });

    await expect(refused).rejects.toThrow(/There is no release before memory\.example\/hello-dev@sha256/);
  });
});

describe("svc deploy status", () => {
  it("shows what runs, its health and its resources, and stores the check", async () => {
    const at = await deployed();

    const found = await using(at, status);

    expect(found.live).toMatchObject({ revision: "r1", status: "running", resources: { instances: "1" } });
    expect(found.health).toMatchObject({ status: "healthy", status_code: 200 });
    expect(found.secretNames).toEqual(["SERVICE_API_KEY"]);
    expect(found.state?.provider_data?.last_health).toMatchObject({ status: "healthy" });
  });

  it("does not report a service as removed whose only deployment failed", async () => {
    const at = await stage({ predictable: true });
    at.world.change((world) => {
      world.faults["service.create"] = "fail";
    });
    const failed = await using(at, (deployment) => up(deployment, yes).catch((error: unknown) => error));

    const found = await using(at, status);

    expect(failed).toBeInstanceOf(Error);
    expect(found.live).toBeUndefined();
    expect(found.drift.join()).not.toContain("removed outside svc");
  });

  it("reports that a service was removed outside svc", async () => {
    const at = await deployed();
    at.world.change((world) => delete world.services["hello-dev"]);

    const found = await using(at, status);

    expect(found.live).toBeUndefined();
    expect(found.drift).toEqual([expect.stringContaining("removed outside svc")]);
  });
});

describe("svc deploy doctor", () => {
  it("checks everything and does not stop at a failure", async () => {
    const at = await stage({ ephemeralDisk: true });
    at.world.change((world) => {
      world.faults.preflight = "the token has expired";
    });

    const findings = await using(at, doctor);

    expect(findings.map(({ level, subject }) => `${level} ${subject}`)).toEqual([
      "ok Node",
      "ok Build",
      "ok Project",
      "warning Lock file",
      "error credentials",
      "warning Disk",
    ]);
  });
});

describe("svc deploy clean", () => {
  it("removes generated files and logs and keeps the user's files", async () => {
    const at = await deployed();
    writeAll(at.cwd, { ".deployment/Dockerfile": "FROM node:22\n" });

    const { removed, kept } = await clean(at.cwd, { all: false });

    expect([...kept].sort()).toEqual(["Dockerfile", "state", "state.json"]);
    expect(removed).toContain("logs");
    expect(removed).toContain("docker-compose.yml");
  });
});
