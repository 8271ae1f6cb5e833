// @long
import * as v from "valibot";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { platformContract } from "../../src/deploy/platform-contract.ts";
import type { AppRunnerFlags } from "../../src/plugins/platforms/app-runner/flags.ts";
import appRunnerPlatform from "../../src/plugins/platforms/app-runner/platform.ts";
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

const CONNECTOR = "arn:aws:apprunner:us-east-1:123456789012:vpcconnector/mine/1/abc";

/** A role of the account that svc did not make; it may read every secret. */
function giveRole(name: string): string {
  const arn = `arn:aws:iam::123456789012:role/${name}`;
  const policy = { Action: "secretsmanager:GetSecretValue", Resource: "*" };
  const inline = new Map([["own", JSON.stringify(policy)]]);
  at.cloud.state.roles.set(name, {
    ...{ name, arn, inline, principal: "tasks.apprunner.amazonaws.com" },
    ...{ tags: [], attached: new Set<string>(), notReady: 0 },
  });
  return arn;
}

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
      { instanceRole: giveRole("runner") },
      { vpcConnector: CONNECTOR },
      { domain: "agents.example.com" },
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
  const roles = [...at.cloud.state.roles.keys()];
  const named = await session.ownResources?.();

  await session.scaleToZero();
  const paused = await session.inspect();
  await session.remove();

  expect(made).toEqual([expect.objectContaining({ min: 2, max: 4 })]);
  expect(paused?.status).toBe("PAUSED");
  expect(at.cloud.state.scaling.filter(({ status }) => status === "ACTIVE")).toEqual([]);
  expect(at.cloud.state.roles.size).toBe(0);
  expect(roles).toHaveLength(2);
  expect(named?.map(({ resource_name }) => resource_name)).toEqual(roles);
  expect(named).toContainEqual(
    expect.objectContaining({
      ...{ resource_type: "role", action_type: "delete" },
      description: "deleted: the role with which App Runner pulls the image",
    }),
  );
  expect(await session.ownResources?.()).toEqual([]);
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

describe("roles and networks", () => {
  const changed = async (session: Awaited<ReturnType<typeof connect>>) =>
    (await session.plan(specOf(ONE), await session.inspect())).filter(
      ({ action_type }) => action_type !== "noop",
    );
  const role = () => (service()!.config.InstanceConfiguration as { InstanceRoleArn: string }).InstanceRoleArn;

  it("that were set elsewhere stay, also in an export, and are no change", async () => {
    const session = await connect();
    await session.prepare?.();
    await deploy(session, specOf(ONE));
    const { config } = service()!;
    (config.InstanceConfiguration as Record<string, unknown>).InstanceRoleArn = giveRole("agent");
    config.NetworkConfiguration = {
      EgressConfiguration: { EgressType: "VPC", VpcConnectorArn: CONNECTOR },
      IngressConfiguration: { IsPubliclyAccessible: true },
    };

    const planned = await changed(session);
    await deploy(session, specOf(TWO));

    expect(planned).toEqual([]);
    expect(role()).toMatch(/role\/agent$/);
    expect(config.NetworkConfiguration).toMatchObject({
      EgressConfiguration: { VpcConnectorArn: CONNECTOR },
    });
    for (const format of ["cloudformation", "terraform"] as const) {
      const text = await session.exports?.[format]?.(specOf(TWO));
      expect(text).toContain("role/agent");
      expect(text).toContain(CONNECTOR);
      expect(text).toMatch(/(IsPubliclyAccessible: |is_publicly_accessible = )true/);
    }
  });

  it("of an option take the place of what runs, are planned as such, and are left alone by down", async () => {
    const session = await connect();
    await session.prepare?.();
    await deploy(session, specOf(ONE));
    const own = role();
    const named = await connect({ instanceRole: giveRole("agent"), vpcConnector: CONNECTOR });

    const planned = JSON.stringify(await changed(named));
    await deploy(named, specOf(ONE));
    const kept = service()?.config.NetworkConfiguration;
    const open = await connect({ vpcConnector: "public" });
    await deploy(open, specOf(ONE));
    const findings = await named.preflight();
    await open.remove();

    expect(planned).toContain(own);
    expect(planned).toContain(CONNECTOR);
    expect(kept).toEqual({
      EgressConfiguration: { EgressType: "VPC", VpcConnectorArn: CONNECTOR },
      IngressConfiguration: { IsPubliclyAccessible: true },
    });
    expect(findings.filter(({ subject }) => subject === "role").map(({ level }) => level)).toEqual(["ok"]);
    expect([...at.cloud.state.roles.keys()]).toEqual(["agent"]);
  });

  it("a service keeps its role with the bucket that it has; with a new one it gets svc's own", async () => {
    const roleWith = async (flags: AppRunnerFlags, url: string) => {
      const session = await connect(flags);
      const spec = specOf(ONE, { env: { SERVICE_STORAGE_URL: url } });
      await session.prepare?.();
      await session.ensureStorage?.(url);
      await deploy(session, spec);
      return role();
    };
    const named = giveRole("agent");

    const first = await roleWith({ instanceRole: named }, "s3://one/agents");
    const second = await roleWith({}, "s3://one/agents");
    const made = [...at.cloud.state.roles.keys()].filter((name) => name.endsWith("-instance"));
    const third = await roleWith({}, "s3://two/agents");

    expect([first, second, made]).toEqual([named, named, []]);
    expect(third).toMatch(/role\/hello-dev-us-east-1-instance$/);
  });

  it("a service that has to be created again keeps its network", async () => {
    at.cloud.state.switches.refuseRepair = true;
    const named = await connect({ vpcConnector: CONNECTOR });
    await named.prepare?.();
    await named.release(specOf(BROKEN)).catch(() => undefined);

    await deploy(await connect(), specOf(ONE));

    expect(service()?.config.NetworkConfiguration).toMatchObject({
      EgressConfiguration: { VpcConnectorArn: CONNECTOR },
    });
  });
});
