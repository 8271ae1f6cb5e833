import * as v from "valibot";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { platformContract } from "../../src/deploy/platform-contract.ts";
import type { AppRunnerFlags } from "../../src/platforms/app-runner/flags.ts";
import appRunnerPlatform from "../../src/platforms/app-runner/platform.ts";
import type { AwsHarness } from "./aws/harness.ts";
import { awsHarness, BROKEN, ONE, TWO } from "./aws/harness.ts";
import { deploy, secret, specOf } from "./google/harness.ts";

let at: AwsHarness;

beforeEach(async () => {
  at = await awsHarness();
});

afterEach(async () => {
  await at.close();
  expect(at.cloud.recorder.violations).toEqual([]);
});

const connect = async (flags: AppRunnerFlags = {}, region?: string) =>
  appRunnerPlatform.connect(at.target(flags, region), at.tools());
const service = () => at.cloud.state.services.find(({ status }) => status !== "DELETED");
const source = () =>
  service()?.config.SourceConfiguration as Record<string, Record<string, Record<string, unknown>>>;

platformContract("aws-app-runner", {
  describe,
  it,
  setup: async () => ({
    platform: appRunnerPlatform,
    target: at.target({}),
    tools: at.tools(),
    settings: [
      { maxInstances: 4 },
      { minInstances: 2 },
      { minInstances: 5 },
      { maxInstances: 3, minInstances: 1 },
      { concurrency: 40 },
      { cpu: "2048" },
      { memory: "4096" },
    ],
    images: [ONE, TWO],
    changes: () => at.cloud.recorder.changes.length,
  }),
});

async function served(url: string | undefined) {
  const response = await at.tools().fetch(`${url}/`);
  return response.text();
}

describe("traps", () => {
  it("App Runner's own rollback that looks like success is reported as a rollback", async () => {
    const session = await connect();
    const first = await deploy(session, specOf(ONE));

    const failure = await session.release(specOf(BROKEN)).catch((error: unknown) => error);

    expect(service()?.status).toBe("RUNNING");
    expect(failure).toMatchObject({
      code: "rolled_back",
      detail: expect.stringContaining("ROLLBACK_SUCCEEDED"),
    });
    expect((failure as { log: string[] }).log.join()).toContain("exit code: 1");
    expect(await served(first?.url)).toContain(ONE);
  });

  it("role not yet assumable: the create is repeated until the role can be used", async () => {
    at.cloud.state.switches.roleDelay = 3;
    const session = await connect();

    const release = await deploy(session, specOf(ONE));

    expect(release?.status).toBe("RUNNING");
    expect(at.said).toContain("waiting for the new role to be usable");
    expect(
      at.cloud.recorder.changes.filter((name) => name === "apprunner CreateService").length,
    ).toBeGreaterThan(1);
  });

  it("secret scheduled for deletion: it is restored and gets the new value", async () => {
    const session = await connect();
    await session.putSecrets({ KEY: secret("first-value-1") });
    await session.dropSecrets(["KEY"]);

    const refs = await session.putSecrets({ KEY: secret("second-value-2") });
    const release = await deploy(session, specOf(ONE, { secrets: refs }));

    expect(await served(release?.url)).toContain("second-value-2");
    expect(await session.listSecrets()).toHaveLength(1);
  });

  it("six-character ARN suffix: services are given the full name of a secret", async () => {
    const session = await connect();
    const refs = await session.putSecrets({ KEY: secret("a-value") });

    await deploy(session, specOf(ONE, { secrets: refs }));

    const config = source()?.ImageRepository?.ImageConfiguration as Record<string, Record<string, string>>;
    expect(config.RuntimeEnvironmentSecrets?.KEY).toMatch(/:secret:hello-dev\/KEY-\w{6}$/);
  });

  it("AutoDeploymentsEnabled is switched off, as it is on by default", async () => {
    const session = await connect();

    await deploy(session, specOf(ONE));

    expect(source()?.AutoDeploymentsEnabled).toBe(false);
  });

  it("a changed secret alone is deployed, as values are read only at a deployment", async () => {
    const session = await connect();
    const first = await session.putSecrets({ KEY: secret("value-one-1") });
    await deploy(session, specOf(ONE, { secrets: first }));

    const second = await session.putSecrets({ KEY: secret("value-two-22") });
    const release = await deploy(session, specOf(ONE, { secrets: second }));

    expect(await served(release?.url)).toContain("value-two-22");
    expect(release?.env).toEqual({ GREETING: "hello" });
  });

  it("sizes with units are not planned as a change forever", async () => {
    const session = await connect({ cpu: "1 vCPU", memory: "2 GB" });
    await deploy(session, specOf(ONE));
    const before = at.cloud.recorder.changes.length;

    await deploy(session, specOf(ONE));

    expect(at.cloud.recorder.changes).toHaveLength(before);
  });

  it("the end of another operation on the service is awaited", async () => {
    const session = await connect();
    await deploy(session, specOf(ONE));
    at.cloud.recorder.fail("apprunner UpdateService", {
      status: 400,
      body: {
        __type: "InvalidStateException",
        Message: "Service status must be RUNNING or PAUSED to be updated",
      },
    });

    const release = await deploy(session, specOf(TWO));

    expect(release?.image).toBe(TWO);
  });

  it.each([false, true])(
    "a service that never started is repaired, or recreated (refused: %s)",
    async (refused) => {
      at.cloud.state.switches.refuseRepair = refused;
      const session = await connect();
      await session.release(specOf(BROKEN)).catch(() => undefined);
      const failed = service()?.status;

      const release = await deploy(session, specOf(ONE));

      expect(failed).toBe("CREATE_FAILED");
      expect(release?.status).toBe("RUNNING");
    },
    60_000,
  );

  it("an account that App Runner does not accept is referred to its successor", async () => {
    at.cloud.state.switches.closed = true;
    const session = await connect();

    const findings = await session.preflight();

    expect(findings).toContainEqual(
      expect.objectContaining({ level: "error", fix: expect.stringContaining("aws-ecs-express") }),
    );
    expect(at.cloud.recorder.changes).toEqual([]);
  });

  it("a missing permission is named", async () => {
    at.cloud.state.switches.deniedActions = ["iam:PassRole"];
    const session = await connect();

    const findings = await session.preflight();

    expect(findings.map(({ message }) => message).join()).toContain("iam:PassRole is not allowed");
  });

  it("a region without App Runner is reported before anything is done", async () => {
    const session = await connect({}, "eu-north-1");

    const findings = await session.preflight();

    expect(findings).toContainEqual(expect.objectContaining({ level: "error", subject: "region" }));
  });
});

it("an instance range creates one configuration, and down removes it with the roles", async () => {
  const session = await connect({ minInstances: 2, maxInstances: 4 });
  await session.prepare?.();
  await deploy(session, specOf(ONE));
  await deploy(session, specOf(TWO));
  const made = at.cloud.state.scaling.filter(({ status }) => status === "ACTIVE");

  await session.scaleToZero();
  const paused = await session.inspect();
  await session.remove();

  expect(made).toEqual([expect.objectContaining({ min: 2, max: 4 })]);
  expect(paused?.status).toBe("PAUSED");
  expect(at.cloud.state.scaling.filter(({ status }) => status === "ACTIVE")).toEqual([]);
  expect(at.cloud.state.roles.size).toBe(0);
  expect(at.cloud.state.repositories.size).toBe(1);
});

it("requests at the same time are part of the configuration, and a later range keeps them", async () => {
  const session = await connect(appRunnerPlatform.withDatabase ?? {});
  await session.prepare?.();
  await deploy(session, specOf(ONE));
  const first = at.cloud.state.scaling.filter(({ status }) => status === "ACTIVE");
  await deploy(await connect({ minInstances: 2 }), specOf(ONE));

  expect(first).toEqual([expect.objectContaining({ min: 1, max: 3, requests: 80 })]);
  expect(at.cloud.state.scaling.at(-1)).toMatchObject({ min: 2, max: 3, requests: 80 });
  expect((await session.inspect())?.resources?.instances).toBe("2–3, 80 requests each");
});

it("a minimum of zero instances is refused with the reason", () => {
  const { issues } = v.safeParse(appRunnerPlatform.flags, { minInstances: 0 });

  expect(issues?.[0]?.message).toContain("must be at least 1: App Runner always keeps an instance ready");
});
