import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DeployTarget } from "../../src/deploy/platform.ts";
import { platformContract } from "../../src/deploy/platform-contract.ts";
import type { AppPlatformFlags } from "../../src/plugins/platforms/do-app-platform/flags.ts";
import appPlatform from "../../src/plugins/platforms/do-app-platform/platform.ts";
import type { DigitalOceanEmulator } from "./digitalocean/emulator.ts";
import { startDigitalOcean } from "./digitalocean/emulator.ts";
import { serveLog } from "./digitalocean/live-log.ts";
import { deploy, secret, specOf } from "./google/harness.ts";
import { StandInImages } from "./instances.ts";
import { testTools } from "./tools.ts";

const REPOSITORY = "registry.digitalocean.com/team/hello-dev";
const ONE = `${REPOSITORY}@sha256:${"1".repeat(64)}`;
const TWO = `${REPOSITORY}@sha256:${"2".repeat(64)}`;
const BROKEN = `${REPOSITORY}@sha256:${"b".repeat(64)}`;

let cloud: DigitalOceanEmulator;
let images: StandInImages;
let said: string[];

beforeEach(async () => {
  images = new StandInImages();
  for (const image of [ONE, TWO]) images.add(image);
  images.add(BROKEN, "crashes");
  cloud = await startDigitalOcean(images);
  cloud.state.registries.push({ name: "team", region: "nyc3", tier: "basic" });
  said = [];
});

afterEach(async () => {
  await cloud.close();
  await images.close();
  expect(cloud.recorder.violations).toEqual([]);
});

const tools = () => testTools({ env: cloud.env, frontFor: cloud.frontFor, said });
const target = (flags: AppPlatformFlags = {}, region = "nyc"): DeployTarget<AppPlatformFlags> => ({
  name: "hello",
  environment: "dev",
  serviceName: "hello-dev",
  region,
  projectId: undefined,
  port: 8000,
  flags,
  cwd: process.cwd(),
});
const connect = async (flags?: AppPlatformFlags, region?: string) =>
  appPlatform.connect(target(flags, region), tools());
const app = () => [...cloud.state.apps.values()][0];

async function served() {
  const response = await tools().fetch("https://hello-dev-x1y2z.ondigitalocean.app/");
  return response.text();
}

platformContract("do-app-platform", {
  describe,
  it,
  setup: async () => ({
    platform: appPlatform,
    target: target(),
    tools: tools(),
    settings: [
      { size: "apps-d-1vcpu-1gb" },
      { minInstances: 2 },
      { maxInstances: 4 },
      { scaleAtCpu: 60 },
      { minInstances: 3 },
      { domain: "agents.example.com" },
    ],
    ways: ["registry", "registryTier"],
    images: [ONE, TWO],
    changes: () => cloud.recorder.changes.length,
  }),
});

it("a domain gets a certificate and the address once its record is there, and others of the app stay", async () => {
  const session = await connect();
  await deploy(session, specOf(ONE));
  app()!.spec.domains = [
    { domain: "old.example.com", type: "PRIMARY" },
    { domain: "more.example.com", type: "ALIAS" },
    { domain: "agents.example.com", type: "ALIAS", minimum_tls_version: "1.3" } as never,
  ];
  app()!.reached = new Set(["old.example.com"]);
  const before = (await session.inspect())?.url;

  const moved = await connect({ domain: "agents.example.com" });
  const early = await deploy(moved, specOf(ONE));
  const reported = said.join();
  app()!.reached?.add("agents.example.com");
  const later = await moved.inspect();
  const domains = app()!.spec.domains;
  await deploy(await connect({ domain: "none" }), specOf(ONE));

  expect(before).toBe("https://old.example.com");
  expect(early?.url).toMatch(/ondigitalocean\.app$/);
  expect(reported).toMatch(
    /agents\.example\.com does not lead .* CNAME record to hello-dev-\w+\.ondigitalocean\.app/,
  );
  expect(later?.url).toBe("https://agents.example.com");
  expect(domains).toEqual([
    { domain: "agents.example.com", type: "PRIMARY", minimum_tls_version: "1.3" },
    { domain: "old.example.com", type: "ALIAS" },
    { domain: "more.example.com", type: "ALIAS" },
  ]);
  expect(app()!.spec.domains?.map(({ domain }) => domain)).toEqual(["old.example.com", "more.example.com"]);
});

describe("traps", () => {
  it("EV[…] secrets are sent back unchanged, and plaintext only when it changed", async () => {
    const session = await connect();
    const refs = await session.putSecrets({ KEY: secret("top-secret-1"), OTHER: secret("other-secret-2") });
    const hashes = { KEY: secret("top-secret-1").hash, OTHER: secret("other-secret-2").hash };
    await deploy(session, specOf(ONE, { secrets: refs, secretHashes: hashes }));
    const before = app()?.spec.services?.[0]?.envs;

    const next = await connect();
    const changed = await next.putSecrets({ KEY: secret("new-secret-33") });
    await deploy(next, specOf(TWO, { secrets: { ...refs, ...changed } }));

    const after = app()?.spec.services?.[0]?.envs;
    const value = (envs: typeof after, key: string) => envs?.find((env) => env.key === key)?.value;
    expect(value(before, "KEY")).toMatch(/^EV\[1:/);
    expect(value(after, "OTHER")).toBe(value(before, "OTHER"));
    expect(value(after, "KEY")).not.toBe(value(before, "KEY"));
    expect(await served()).toContain("new-secret-33");
    expect(
      (await next.plan(specOf(TWO, { secrets: { ...refs, ...changed } }), await next.inspect())).every(
        ({ action_type }) => action_type === "noop",
      ),
    ).toBe(true);
  });

  it("several registries: one must be chosen, by name", async () => {
    cloud.state.registries.push({ name: "other", region: "ams3", tier: "basic" });
    const session = await connect();

    const findings = await session.preflight();

    expect(findings).toContainEqual(
      expect.objectContaining({
        level: "error",
        subject: "registry",
        fix: expect.stringContaining("--registry team"),
      }),
    );
    expect(() => session.imageRef("one")).toThrow("several container registries");
  });

  it("412: with several registries the interface by name is used, never the one for a single registry", async () => {
    cloud.state.registries.push({ name: "other", region: "ams3", tier: "basic" });
    const session = await connect({ registry: "other" });

    const login = await session.registryLogin();

    expect(login).toMatchObject({ registry: "registry.digitalocean.com", username: "lab-do-token" });
    expect(session.imageRef("one")).toBe("registry.digitalocean.com/other/hello-dev:one");
    expect(cloud.recorder.calls.filter(({ name }) => name.includes("/v2/registry"))).toEqual([]);
  });

  it("a registry login ends by itself", async () => {
    const session = await connect();

    await session.registryLogin();

    expect(cloud.state.logins).toEqual([{ query: { read_write: "true", expiry_seconds: "1800" } }]);
  });

  it("DO regions: the name of a data center is distinguished from that of a region", async () => {
    const session = await connect({}, "nyc3");

    const findings = await session.preflight();

    expect(findings).toContainEqual(
      expect.objectContaining({
        level: "error",
        subject: "region",
        fix: expect.stringContaining("--region nyc:"),
      }),
    );
  });

  it("DO regions: a registry is created in the data center of the region", async () => {
    cloud.state.registries.length = 0;
    const session = await connect({}, "fra");

    await session.prepare?.();

    expect(cloud.state.registries).toEqual([
      { name: expect.stringMatching(/^svc-/), region: "fra1", tier: "starter" },
    ]);
  });

  it("a broken image leaves the old deployment serving, and the cause is reported", async () => {
    const session = await connect();
    await deploy(session, specOf(ONE));

    const failure = await session.release(specOf(BROKEN)).catch((error: unknown) => error);

    expect(failure).toMatchObject({
      code: "failed",
      detail: expect.stringContaining("DeployContainerExitNonZero"),
    });
    expect(await served()).toContain(ONE);
  });

  it("the platform's own rollback is not reported as success", async () => {
    cloud.state.switches.autoRollback = true;
    const session = await connect();
    await deploy(session, specOf(ONE));

    const failure = await session.release(specOf(BROKEN)).catch((error: unknown) => error);

    expect(failure).toMatchObject({ code: "failed" });
    expect((await session.inspect())?.image).toBe(ONE);
  });

  it("a rollback does not pin the app: the next deployment goes through", async () => {
    const session = await connect();
    const first = await deploy(session, specOf(ONE));
    await deploy(session, specOf(TWO));

    await session.rollback(first!);
    const back = await served();
    await deploy(session, specOf(TWO, { env: { GREETING: "again" } }));

    expect(back).toContain(ONE);
    expect(await served()).toContain("again");
  });

  it("a pin that somebody else left is removed before a rollback", async () => {
    const session = await connect();
    const first = await deploy(session, specOf(ONE));
    await deploy(session, specOf(TWO));
    app()!.pinned = true;

    await session.rollback(first!);

    expect(await served()).toContain(ONE);
  });

  it("an existing app of that name is updated, and only if it is ours", async () => {
    const session = await connect();
    await deploy(session, specOf(ONE));
    app()!.spec.services![0]!.envs = [];

    const findings = await session.preflight();
    const failure = await session.remove().catch((error: unknown) => error);

    expect(findings).toContainEqual(expect.objectContaining({ level: "error", subject: "name" }));
    expect(failure).toMatchObject({ outcome: "It was not changed" });
  });

  it("components, domains and settings of others are kept", async () => {
    const session = await connect();
    await deploy(session, specOf(ONE));
    app()!.spec.domains = [{ domain: "example.com", type: "PRIMARY" }];
    app()!.spec.workers = [{ name: "mailer" }];

    await deploy(session, specOf(TWO));

    expect(app()?.spec).toMatchObject({
      domains: [{ domain: "example.com" }],
      workers: [{ name: "mailer" }],
    });
  });

  it("too many requests: it waits as long as requested, and continues", async () => {
    const session = await connect();
    cloud.recorder.fail("GET /v2/account", {
      status: 429,
      headers: { "retry-after": "7" },
      body: { id: "too_many_requests", message: "API rate limit exceeded." },
    });
    const patient = tools();
    const again = await appPlatform.connect(target(), patient);

    await again.preflight();

    expect(patient.slept()).toBe(7000);
    await session.close?.();
  });

  it("a create whose response was lost is not sent twice", async () => {
    let cut = false;
    cloud.recorder.afterChange = (call) => {
      if (call.name === "POST /v2/apps" && !cut) {
        cut = true;
        throw new Error("answer lost");
      }
    };
    const session = await connect();

    await deploy(session, specOf(ONE));

    expect(cloud.state.apps.size).toBe(1);
  });
});

describe("the live log", () => {
  const followed = async () => {
    const session = await connect();
    await deploy(session, specOf(ONE));
    const lines: string[] = [];
    for await (const line of session.logs?.({ since: new Date(), follow: true }) ?? []) lines.push(line);
    return lines;
  };

  it("is followed over a WebSocket to its end, with pongs", async () => {
    const long = "x".repeat(70_000);
    await using log = await serveLog(["first line\nsecond ", "line\n", `${long}\n`, "last words"]);
    cloud.state.liveLog = log.url;

    expect(await followed()).toEqual(["first line", "second line", long, "last words"]);
    expect(log.pongs).toEqual(["are you there"]);
  });

  it("that cannot be opened is reported, with what to do instead", async () => {
    await using log = await serveLog([], { refuse: true });
    cloud.state.liveLog = log.url;

    await expect(followed()).rejects.toMatchObject({
      detail: "the server responded with 403",
      fix: "Run the command again, or without --follow",
    });
  });
});

it("the price is the provider's own", async () => {
  const session = await connect();

  const estimate = await session.estimate?.(specOf(ONE));

  expect(estimate?.cost).toEqual({
    text: "$5.00 a month, DigitalOcean's own price",
    date: expect.stringMatching(/^20\d\d-\d\d-\d\d$/),
    source: "https://www.digitalocean.com/pricing/app-platform",
  });
});

it("the price is that of the size where the image is not pushed yet, for the instances that always run", async () => {
  const session = await connect({ size: "apps-d-1vcpu-1gb", minInstances: 2, maxInstances: 3 });
  // Its image would be in a registry that the first deployment makes.
  cloud.state.registries.length = 0;

  const estimate = await session.estimate?.(specOf(ONE));

  expect(estimate?.cost?.text).toBe("$68.00 a month, DigitalOcean's own price");
});

it("the size that runs decides how many instances there may be, and a share of CPU needs a range", async () => {
  const sized = await connect({ size: "apps-d-1vcpu-1gb" });
  await deploy(sized, specOf(ONE));

  const several = await (await connect({ maxInstances: 3 })).preflight();
  const fixed = await (await connect({ scaleAtCpu: 60 })).preflight();

  expect(several.filter(({ level }) => level === "error")).toEqual([]);
  expect(fixed).toContainEqual(expect.objectContaining({ level: "error", fix: "Add --max-instances" }));
});

it("more instances than a size can have are refused before anything is changed", async () => {
  const session = await connect({ minInstances: 1, maxInstances: 3 });

  const errors = (await session.preflight()).filter(({ level }) => level === "error");

  expect(errors.map(({ subject }) => subject)).toEqual(["instances"]);
});

it("down archives, then deletes the app, and keeps the registry", async () => {
  const session = await connect();
  await deploy(session, specOf(ONE));

  await session.scaleToZero();
  const archived = await session.inspect();
  await session.remove();

  expect(archived?.status).toBe("ARCHIVED");
  expect(cloud.state.apps.size).toBe(0);
  expect(cloud.state.registries).toHaveLength(1);
});
