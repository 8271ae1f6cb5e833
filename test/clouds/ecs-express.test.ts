import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { platformContract } from "../../src/deploy/platform-contract.ts";
import type { EcsExpressFlags } from "../../src/platforms/aws-ecs-express/flags.ts";
import ecsExpressPlatform from "../../src/platforms/aws-ecs-express/platform.ts";
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

const connect = async (flags: EcsExpressFlags = {}) =>
  ecsExpressPlatform.connect(at.target(flags), at.tools());

platformContract("aws-ecs-express", {
  describe,
  it,
  setup: async () => ({
    platform: ecsExpressPlatform,
    target: at.target({}),
    tools: at.tools(),
    settings: [
      { maxInstances: 4 },
      { minInstances: 2 },
      { minInstances: 5 },
      { scaleAtCpu: 50 },
      { cpu: "512" },
      { memory: "1024" },
    ],
    ways: ["cluster", "subnets"],
    images: [ONE, TWO],
    changes: () => at.cloud.recorder.changes.length,
  }),
});

async function served() {
  const response = await at.tools().fetch("https://hello-dev.ecs.us-east-1.on.aws/");
  return response.text();
}

describe("the public address", () => {
  /** Releases as `up` does, with the address that the platform expects. */
  async function first() {
    const session = await connect();
    const url = await session.predictUrl?.();
    const spec = specOf(ONE, { publicUrl: url, env: { SERVICE_PUBLIC_URL: url ?? "" } });
    const release = await deploy(session, spec);
    const [made] = [...at.cloud.state.express.values()];
    return { session, url, release, rollouts: made?.deployments.length };
  }

  it("is known before the first release, so that is one rollout", async () => {
    const { url, release, rollouts } = await first();

    expect(url).toBe("https://hello-dev.ecs.us-east-1.on.aws");
    expect(release).toMatchObject({ url, env: { SERVICE_PUBLIC_URL: url } });
    expect(rollouts).toBe(1);
  });

  it("is corrected by a second rollout if ECS assigned another one, and is known from then on", async () => {
    at.cloud.state.switches.expressDomain = "a1b2.ecs.us-east-1.on.aws";

    const { session, release, rollouts } = await first();

    const real = "https://hello-dev.a1b2.ecs.us-east-1.on.aws";
    expect(release).toMatchObject({ url: real, env: { SERVICE_PUBLIC_URL: real } });
    expect(rollouts).toBe(2);
    expect(await session.predictUrl?.()).toBe(real);
  });
});

describe("traps", () => {
  it("role not yet assumable: the create is repeated until the role can be used", async () => {
    at.cloud.state.switches.roleDelay = 3;
    const session = await connect();

    const release = await deploy(session, specOf(ONE));

    expect(release?.status).toBe("ACTIVE");
    expect(at.said).toContain("waiting for the new role to be usable");
  });

  it("ECS's own rollback is reported as a rollback, although the service stays active", async () => {
    const session = await connect();
    await deploy(session, specOf(ONE));

    const failure = await session.release(specOf(BROKEN)).catch((error: unknown) => error);

    expect(failure).toMatchObject({
      code: "rolled_back",
      detail: expect.stringContaining("ROLLBACK_SUCCESSFUL"),
    });
    expect(await served()).toContain(ONE);
  });

  it("secrets are pinned to a version, so that a rollback brings the old value back", async () => {
    const session = await connect();
    const first = await session.putSecrets({ KEY: secret("value-one-1") });
    const before = await deploy(session, specOf(ONE, { secrets: first }));
    const second = await session.putSecrets({ KEY: secret("value-two-22") });
    await deploy(session, specOf(ONE, { secrets: second }));
    const after = await served();

    await session.rollback(before!);

    expect(after).toContain("value-two-22");
    expect(await served()).toContain("value-one-1");
  });

  it("the security group that ECS adds is not a change", async () => {
    const session = await connect();
    await session.prepare?.();
    await deploy(session, specOf(ONE));

    const actions = await session.plan(specOf(ONE), await session.inspect());

    expect(actions.filter(({ action_type }) => action_type !== "noop")).toEqual([]);
  });

  it("a rollback stops a deployment that is still in progress", async () => {
    const session = await connect();
    const first = await deploy(session, specOf(ONE));
    const stopping = new AbortController();
    const state = at.cloud.state;
    at.cloud.recorder.afterChange = (call) => {
      if (call.name === "ecs UpdateExpressGatewayService") stopping.abort();
    };
    const slow = [...state.express.values()][0]!;
    void session.release(specOf(TWO)).catch(() => undefined);
    while (!stopping.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5));
    slow.deployments[0]!.reads = 1000;

    await session.rollback(first!);

    expect(at.cloud.recorder.changes).toContain("ecs StopServiceDeployment");
    expect(await served()).toContain(ONE);
  });
});

it("down waits until the service is drained, and removes its roles", async () => {
  const session = await connect();
  await session.prepare?.();
  await deploy(session, specOf(ONE));
  const foreign = {
    name: "other",
    arn: "arn:aws:iam::123456789012:role/other",
    principal: "x",
    tags: [],
    notReady: 0,
  };
  at.cloud.state.roles.set("other", { ...foreign, attached: new Set(), inline: new Map() });

  await session.remove();

  expect([...at.cloud.state.express.values()].map(({ status }) => status)).toEqual(["INACTIVE"]);
  expect([...at.cloud.state.roles.keys()]).toEqual(["other"]);
  expect(at.cloud.state.repositories.size).toBe(1);
});
