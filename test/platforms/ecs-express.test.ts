import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { platformContract } from "../../src/deploy/platform-contract.ts";
import type { EcsExpressFlags } from "../../src/plugins/platforms/aws-ecs-express/flags.ts";
import ecsExpressPlatform from "../../src/plugins/platforms/aws-ecs-express/platform.ts";
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

const PRINCIPAL = "ecs-tasks.amazonaws.com";
const SECRETS = "secretsmanager:GetSecretValue";

/** A role of the account that svc did not make; by default it may read every secret. */
function giveRole(name: string, { principal = PRINCIPAL, reads = true } = {}): string {
  const arn = `arn:aws:iam::123456789012:role/${name}`;
  const policy = { Action: SECRETS, Resource: "*" };
  const inline = new Map(reads ? [["own", JSON.stringify(policy)]] : []);
  const role = { name, arn, principal, tags: [], attached: new Set<string>(), notReady: 0, inline };
  at.cloud.state.roles.set(name, role);
  return arn;
}

const withBucket = (image: string, url: string) => specOf(image, { env: { SERVICE_STORAGE_URL: url } });
const express = () => [...at.cloud.state.express.values()][0]!;

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
      { architecture: "arm64" as const },
      { subnets: "subnet-2,subnet-3" },
      { securityGroups: "sg-1" },
      { taskRole: giveRole("runner") },
      { executionRole: giveRole("starter") },
    ],
    ways: ["cluster"],
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
      if (call.name !== "ecs UpdateExpressGatewayService") return;
      slow.deployments[0]!.reads = 1000;
      stopping.abort();
    };
    const slow = [...state.express.values()][0]!;
    void session.release(specOf(TWO)).catch(() => undefined);
    while (!stopping.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5));

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
  const roles = [...at.cloud.state.roles.keys()].filter((name) => name !== "other");
  const named = await session.ownResources?.();

  await session.remove();

  expect([...at.cloud.state.express.values()].map(({ status }) => status)).toEqual(["INACTIVE"]);
  expect([...at.cloud.state.roles.keys()]).toEqual(["other"]);
  expect(roles.length).toBeGreaterThan(1);
  expect(named?.map(({ resource_name }) => resource_name).sort()).toEqual(roles.sort());
  expect(named?.every(({ action_type }) => action_type === "delete")).toBe(true);
  expect(at.cloud.state.repositories.size).toBe(1);
});

describe("roles and networks", () => {
  const changed = async (session: Awaited<ReturnType<typeof connect>>) =>
    (await session.plan(specOf(ONE), await session.inspect())).filter(
      ({ action_type }) => action_type !== "noop",
    );

  it("that were set elsewhere stay, also in an export, and are no change", async () => {
    const session = await connect();
    await session.prepare?.();
    await deploy(session, specOf(ONE));
    const active = express().active as Record<string, unknown>;
    active.executionRoleArn = giveRole("theirs");
    active.taskRoleArn = giveRole("agent");
    active.networkConfiguration = { subnets: ["subnet-7"], securityGroups: ["sg-7"] };

    const planned = await changed(session);
    await deploy(session, specOf(TWO));
    const template = await session.exports?.cloudformation?.(specOf(TWO));

    expect(planned).toEqual([]);
    expect(express().active).toMatchObject({
      executionRoleArn: expect.stringMatching(/theirs$/),
      taskRoleArn: expect.stringMatching(/agent$/),
      networkConfiguration: { subnets: ["subnet-7"], securityGroups: ["sg-7"] },
    });
    for (const kept of ["role/theirs", "role/agent", "subnet-7", "sg-7"]) expect(template).toContain(kept);
  });

  it("of an option arrive on a service that runs, and the rest of its network stays", async () => {
    const session = await connect({ securityGroups: "sg-1, sg-2" });
    await session.prepare?.();
    await deploy(session, specOf(ONE));

    const moved = await connect({ subnets: "subnet-2, subnet-3" });
    const planned = await changed(moved);
    await deploy(moved, specOf(ONE));
    const fewer = await connect({ securityGroups: "sg-1" });
    const plannedFewer = await changed(fewer);
    await deploy(fewer, specOf(ONE));

    expect(JSON.stringify(planned)).toContain("subnet-2, subnet-3, sg-1, sg-2");
    expect(plannedFewer).not.toEqual([]);
    expect(express().active?.networkConfiguration).toEqual({
      subnets: ["subnet-2", "subnet-3"],
      securityGroups: ["sg-1"],
    });
    expect(await changed(fewer)).toEqual([]);
  });

  it("a role that an option names starts tasks in place of svc's own, and is neither changed nor removed", async () => {
    const first = await connect();
    await first.prepare?.();
    const secrets = await first.putSecrets({ KEY: secret("value-one-1") });
    const executionRole = giveRole("starter");
    const taskRole = giveRole("agent");
    const before = structuredClone(at.cloud.state.roles.get("starter"));
    const session = await connect({ executionRole, taskRole });

    await deploy(session, specOf(ONE, { secrets }));
    const seen = await served();
    await (await connect()).remove();

    expect(seen).toContain("value-one-1");
    expect(at.cloud.state.roles.get("starter")).toEqual(before);
    expect([...at.cloud.state.roles.keys()]).toEqual(["starter", "agent"]);
  });

  it("a service keeps its role with the bucket that it has; with a new one it gets svc's own", async () => {
    const own = /role\/hello-dev-us-east-1-task$/;
    const roleWith = async (flags: EcsExpressFlags, url: string) => {
      const session = await connect(flags);
      const planned = await session.plan(withBucket(ONE, url), await session.inspect());
      await session.ensureStorage?.(url);
      await deploy(session, withBucket(ONE, url));
      const changes = planned.filter(({ action_type }) => action_type !== "noop").length;
      return { role: express().active?.taskRoleArn, changes };
    };
    await (await connect()).prepare?.();
    const named = giveRole("agent");

    const first = await roleWith({ taskRole: named }, "s3://one/agents");
    const second = await roleWith({}, "s3://one/agents");
    const made = [...at.cloud.state.roles.keys()].filter((name) => own.test(`role/${name}`));
    const third = await roleWith({}, "s3://two/agents");

    expect([first.role, second, made]).toEqual([named, { role: named, changes: 0 }, []]);
    expect(third).toEqual({ role: expect.stringMatching(own), changes: expect.any(Number) });
  });

  it("a named role is checked for the bucket of the service only", async () => {
    const arn = giveRole("agent", { reads: false });
    const policy = { Action: "s3:PutObject", Resource: "arn:aws:s3:::jobs/agents/*" };
    at.cloud.state.roles.get("agent")!.inline.set("jobs", JSON.stringify(policy));
    const levelsWith = async (storage: string) => {
      const session = await ecsExpressPlatform.connect(
        { ...at.target({ taskRole: arn }), storage },
        at.tools(),
      );
      const found = await session.preflight();
      return found.filter(({ subject }) => subject === "role").map(({ level }) => level);
    };

    expect([await levelsWith("s3://jobs/agents"), await levelsWith("s3://jobs/others")]).toEqual([
      ["ok"],
      ["warning"],
    ]);
  });

  it.each([
    ["starter-not-there", {}, /does not exist/, "error"],
    ["wrong", { principal: "lambda.amazonaws.com" }, /cannot be assumed by ecs-tasks/, "error"],
    ["blind", { reads: false }, /may not secretsmanager:GetSecretValue/, "warning"],
    ["reader", {}, /role\/reader$/, "ok"],
  ])("the named role %s is checked before anything is built", async (name, given, message, level) => {
    const arn = `arn:aws:iam::123456789012:role/${name}`;
    if (name !== "starter-not-there") giveRole(name, given);
    const session = await connect({ executionRole: arn });

    const found = (await session.preflight()).filter(({ subject }) => subject === "role");

    expect(found).toEqual([expect.objectContaining({ level, message: expect.stringMatching(message) })]);
  });
});
