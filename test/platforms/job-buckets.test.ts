import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { PlatformSession } from "../../src/deploy/platform.ts";
import ecsExpress from "../../src/plugins/platforms/aws-ecs-express/platform.ts";
import { bucketName } from "../../src/plugins/platforms/cloud/job-bucket.ts";
import cloudRun from "../../src/plugins/platforms/cloud-run/platform.ts";
import type { AwsHarness } from "./aws/harness.ts";
import { ONE as AWS_ONE, awsHarness } from "./aws/harness.ts";
import type { CloudRunHarness } from "./google/harness.ts";
import { cloudRunHarness, deploy, ONE, specOf, TWO } from "./google/harness.ts";

const withBucket = (image: string, url: string) => specOf(image, { env: { SERVICE_STORAGE_URL: url } });
const actionsOf = async (session: PlatformSession, url: string, image = ONE) =>
  (await session.plan(withBucket(image, url))).filter(({ resource_type }) =>
    ["bucket", "role"].includes(resource_type),
  );

it("names a bucket after its service and by whose it is, in what all providers accept", () => {
  const name = bucketName("a".repeat(60), "account", "region");

  expect(name).toMatch(/^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/);
  expect(bucketName("hello-dev", "account", "region")).toBe(bucketName("hello-dev", "account", "region"));
  const others = [
    bucketName("hello-dev", "account", "elsewhere"),
    bucketName("hello-dev", "another", "region"),
    bucketName("hello-prod", "account", "region"),
  ];
  expect(others).not.toContain(bucketName("hello-dev", "account", "region"));
});

describe("a bucket of Cloud Storage", () => {
  let at: CloudRunHarness;
  let session: PlatformSession;
  let url: string;
  beforeEach(async () => {
    at = await cloudRunHarness();
    session = await at.connect();
    url = (await session.storageUrl?.()) ?? "";
  });
  afterEach(async () => {
    await at.close();
    expect(at.emulator.recorder.violations).toEqual([]);
  });
  const bucket = (name = new URL(url).hostname) => at.emulator.state.buckets.get(name);

  it("is private, in the service's region, and used by the service's account only", async () => {
    const planned = await actionsOf(session, url);

    await session.ensureStorage?.(url);

    expect(planned.map(({ action_type }) => action_type)).toEqual(["create", "create"]);
    expect(bucket()?.resource).toMatchObject({
      location: "US-CENTRAL1",
      iamConfiguration: {
        uniformBucketLevelAccess: { enabled: true },
        publicAccessPrevention: "enforced",
      },
    });
    const members = ["serviceAccount:123456789012-compute@developer.gserviceaccount.com"];
    expect(bucket()?.policy?.bindings).toEqual([{ role: "roles/storage.objectUser", members }]);
    const changes = at.emulator.recorder.changes.length;
    await session.ensureStorage?.(url);
    expect(at.emulator.recorder.changes).toHaveLength(changes);
    expect((await actionsOf(session, url)).map(({ action_type }) => action_type)).toEqual(["noop", "noop"]);
  });

  it("keeps who else has access when the service's account gets it", async () => {
    await session.ensureStorage?.(url);
    const other = { role: "roles/storage.objectViewer", members: ["user:ada@example.com"] };
    bucket()!.policy!.bindings.push(other);
    const next = await at.connect({ serviceAccount: "runner@demo-project.iam.gserviceaccount.com" });

    await next.ensureStorage?.(url);

    expect(bucket()?.policy?.bindings).toContainEqual(other);
    expect(bucket()?.policy?.bindings[0]?.members).toContain(
      "serviceAccount:runner@demo-project.iam.gserviceaccount.com",
    );
  });

  it("grants again where the policy was changed in between", async () => {
    const conflict = { status: 412, body: { error: { code: 412, message: "Pre-conditions not met." } } };
    at.emulator.recorder.fail(/^storage PUT .*\/iam$/, conflict);

    await session.ensureStorage?.(url);

    expect(bucket()?.policy?.bindings).toHaveLength(1);
  });

  it.each([true, false])("is not used where somebody else has its name, readable: %s", async (open) => {
    const taken = { projectNumber: "9", open, objects: new Map() };
    at.emulator.state.buckets.set(new URL(url).hostname, taken);

    await expect(session.plan(withBucket(ONE, url))).rejects.toThrow(/belongs to somebody else/);
    await expect(session.ensureStorage?.(url)).rejects.toThrow(/belongs to somebody else/);
  });

  it("may be in another project if it is named, and the report says which role it needs there", async () => {
    at.emulator.state.buckets.set("shared-bucket", { projectNumber: "9", objects: new Map() });

    const planned = await actionsOf(session, "gs://shared-bucket/agents");
    await session.ensureStorage?.("gs://shared-bucket/agents");

    expect(planned.map(({ action_type }) => action_type)).toEqual(["noop", "noop"]);
    expect(at.said.join()).toMatch(/needs roles\/storage\.objectUser on "shared-bucket"/);
  });

  it("is not replaced by an empty one where the running service has its jobs in it", async () => {
    await session.ensureStorage?.(url);
    const live = await deploy(session, withBucket(ONE, url));
    at.emulator.state.buckets.clear();

    const failed = session.plan(withBucket(TWO, url), live);

    await expect(failed).rejects.toThrow(/no longer exists/);
  });

  it("is looked for before a deployment: what is missing for it is found", async () => {
    at.emulator.state.lacking.add("storage.buckets.setIamPolicy");
    const asked = await cloudRunWith(at, "create");

    const without = await session.preflight();
    const found = await asked.preflight();

    const missing = expect.objectContaining({
      level: "error",
      message: expect.stringContaining("storage.buckets.setIamPolicy"),
    });
    expect(without).not.toContainEqual(missing);
    expect(found).toContainEqual(missing);
  });
});

describe("a bucket of S3", () => {
  let at: AwsHarness;
  let session: PlatformSession;
  let url: string;
  const connect = async (storage?: string, region?: string) =>
    ecsExpress.connect({ ...at.target({}, region), ...(storage ? { storage } : {}) }, at.tools());
  beforeEach(async () => {
    at = await awsHarness();
    session = await connect();
    url = (await session.storageUrl?.()) ?? "";
  });
  afterEach(async () => {
    await session.close?.();
    await at.close();
    expect(at.cloud.recorder.violations).toEqual([]);
  });

  it("has all public access blocked, and a role that reaches the objects of its prefix", async () => {
    const planned = await actionsOf(session, url, AWS_ONE);

    await session.ensureStorage?.(url);

    const name = new URL(url).hostname;
    expect(planned.filter(({ action_type }) => action_type === "create")).toHaveLength(4);
    expect(at.cloud.state.buckets.get(name)?.blocks).toHaveLength(4);
    const role = at.cloud.state.roles.get("hello-dev-us-east-1-task");
    expect(JSON.parse(role?.inline.get("bucket") ?? "{}").Statement).toEqual([
      {
        Effect: "Allow",
        Action: ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
        Resource: `arn:aws:s3:::${name}/store/*`,
      },
      { Effect: "Allow", Action: "s3:ListBucket", Resource: `arn:aws:s3:::${name}` },
    ]);
    const changes = at.cloud.recorder.changes.length;
    await session.ensureStorage?.(url);
    expect(at.cloud.recorder.changes).toHaveLength(changes);
  });

  it("is created once, where the response to its creation is lost", async () => {
    at.cloud.recorder.fail("s3 CreateBucket", "cut");

    await session.ensureStorage?.(url);

    expect(at.cloud.recorder.changes.filter((name) => name === "s3 CreateBucket")).toHaveLength(2);
    expect([...at.cloud.state.buckets.values()].map(({ blocks }) => blocks.length)).toEqual([4]);
  });

  it("is not used where another account has the name that svc would give it", async () => {
    at.cloud.state.buckets.set(new URL(url).hostname, { owner: "999999999999", blocks: [] });

    await expect(session.plan(withBucket(AWS_ONE, url))).rejects.toThrow(/belongs to somebody else/);
    await expect(session.ensureStorage?.(url)).rejects.toThrow(/belongs to somebody else/);
  });

  it("may be of another account if it is named, and the plan says what it needs", async () => {
    at.cloud.state.buckets.set("shared-bucket", { owner: "999999999999", blocks: [] });

    const [found] = await actionsOf(session, "s3://shared-bucket/agents?region=us-east-1", AWS_ONE).then(
      (actions) => actions.filter(({ resource_type }) => resource_type === "bucket"),
    );

    expect(found).toMatchObject({
      action_type: "noop",
      description: expect.stringContaining("of another account"),
    });
  });

  it("is looked for before a deployment: what is missing for it is found", async () => {
    at.cloud.state.switches.deniedActions.push("s3:CreateBucket");
    const asked = await connect("create");

    const without = await session.preflight();
    const found = await asked.preflight();

    await asked.close?.();
    const missing = expect.objectContaining({ message: expect.stringContaining("s3:CreateBucket") });
    expect(without).not.toContainEqual(missing);
    expect(found).toContainEqual(missing);
  });
});

async function cloudRunWith(at: CloudRunHarness, storage: string): Promise<PlatformSession> {
  return cloudRun.connect({ ...at.target(), storage }, at.tools());
}
