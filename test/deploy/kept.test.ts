import { describe, expect, it } from "vitest";
import { parseConfig } from "../../src/deploy/config.ts";
import { prepare } from "../../src/deploy/plan.ts";
import { up } from "../../src/deploy/up.ts";
import type { Stage } from "./_fixture.ts";
import { PROJECT, stage, temporaryProject, writeAll } from "./_fixture.ts";

const CONFIG = ".deployment/config.yaml";
const GIVEN =
  "environment: {GREETING: hello}\nsecrets: [{name: PAY_TOKEN, value: first-value}]\nstore: external\n";

async function deploy(at: Stage, ...args: Parameters<Stage["open"]>) {
  const deployment = await at.open(...args);
  try {
    return await up(deployment, async () => true);
  } finally {
    await deployment.close();
  }
}

async function planned(at: Stage, ...args: Parameters<Stage["open"]>) {
  const deployment = await at.open(...args);
  const { plan } = await prepare(deployment);
  await deployment.close();
  return plan.actions.filter(
    ({ action_type, resource_type }) => action_type !== "noop" && resource_type !== "image",
  );
}

const newest = (at: Stage) => at.world.read().services["hello-dev"]?.revisions.at(-1);
const notices = (at: Stage) => at.events.flatMap((event) => (event.type === "notice" ? [event.message] : []));

/** A deployed service, and a fresh checkout of its project: `.deployment/` is not committed. */
async function freshCheckout(config = GIVEN, flags: object = {}): Promise<{ at: Stage; cwd: string }> {
  const at = await stage({ predictable: true });
  writeAll(at.cwd, { [CONFIG]: config });
  await deploy(at, {}, { flags: flags as Record<string, unknown> });
  at.events.length = 0;
  return { at, cwd: temporaryProject(PROJECT) };
}

describe("a deployment without a config file", () => {
  it("keeps the variables, secrets and store of the running service, and says so", async () => {
    const { at, cwd } = await freshCheckout();
    writeAll(cwd, { "src/controller.ts": "export default { next: true };\n" });

    await deploy(at, {}, { cwd });

    expect(newest(at)).toMatchObject({
      name: "r2",
      env: { GREETING: "hello", SERVICE_STORE: "external" },
      secrets: { PAY_TOKEN: "PAY_TOKEN:1" },
    });
    expect(notices(at).join()).toMatch(/keeps GREETING, PAY_TOKEN/);
  });

  it("keeps the keys of encrypted data, also where the configuration no longer lists them", async () => {
    const listed = "secrets: [{name: SERVICE_ENCRYPTION_KEYS, value: some-keys}]\nstore: external\n";
    const { at } = await freshCheckout(listed);
    writeAll(at.cwd, {
      [CONFIG]: "store: external\n",
      "src/controller.ts": "export default { next: true };\n",
    });

    await deploy(at);

    expect(newest(at)).toMatchObject({
      name: "r2",
      secrets: { SERVICE_ENCRYPTION_KEYS: "SERVICE_ENCRYPTION_KEYS:1" },
    });
  });

  it("plans no change of settings that it does not know", async () => {
    const { at, cwd } = await freshCheckout();

    const actions = await planned(at, {}, { cwd });

    expect(JSON.stringify(actions)).not.toMatch(/GREETING|PAY_TOKEN|SERVICE_STORE|"to":null/);
  });

  it("keeps a secret that was attached by other means", async () => {
    const { at, cwd } = await freshCheckout();
    at.world.change((world) => delete world.secrets["hello-dev"]?.PAY_TOKEN);

    const actions = await planned(at, {}, { cwd });

    expect(JSON.stringify(actions)).not.toMatch(/PAY_TOKEN/);
  });

  it("deploys to prod a service that stores its jobs outside, without a confirmation of their loss", async () => {
    const at = await stage({ predictable: true, ephemeralDisk: true });
    writeAll(at.cwd, { [CONFIG]: GIVEN });
    await deploy(at, { env: "prod", generateApiKey: true });

    const again = await deploy(at, { env: "prod" }, { cwd: temporaryProject(PROJECT) });

    expect(again.result.success).toBe(true);
  });

  it("keeps the instances of a running service, and limits a new service to one", async () => {
    const { at, cwd } = await freshCheckout(GIVEN, { maxInstances: 4 });

    const kept = await at.open({}, { cwd });
    await prepare(kept);
    const fresh = await at.open({ name: "other" }, { cwd });
    await prepare(fresh);

    expect([kept.target.flags.maxInstances, fresh.target.flags.maxInstances]).toEqual([undefined, 1]);
  });

  it("refuses several instances of a service that stores files", async () => {
    const { at, cwd } = await freshCheckout("environment: {A: b}");
    const deployment = await at.open({}, { cwd, flags: { maxInstances: 3 } });

    await expect(prepare(deployment)).rejects.toMatchObject({ code: "usage" });
  });
});

describe("a config file", () => {
  it("is complete: what it does not list is planned for removal, and reported", async () => {
    const { at } = await freshCheckout();
    writeAll(at.cwd, { [CONFIG]: "environment: {OTHER: x}\nstore: external" });

    const actions = await planned(at);

    const [service] = actions.filter(({ resource_type }) => resource_type === "service");
    expect(service?.metadata?.changes).toEqual([
      { field: "env.GREETING", from: "hello", to: null },
      { field: "env.OTHER", from: null, to: "x" },
      { field: "secret.PAY_TOKEN", from: "set", to: null },
    ]);
    expect(notices(at).join()).toMatch(/does not list GREETING/);
  });

  it.each([
    ["", false],
    ["# only words\n", false],
    ["environment:\n#  A: b\n", false],
    ["environment: {}\n", true],
    ["store: file\n", true],
  ])("with %j sets something: %s", (text, known) => {
    expect(parseConfig(text).known).toBe(known);
  });
});

describe("omitted options of a deployment", () => {
  it("keep the port and the public address", async () => {
    const at = await stage({ predictable: true });
    await deploy(at, { port: 9000, publicUrl: `${at.base}/hello-dev?own` });
    writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });

    await deploy(at);

    expect(newest(at)).toMatchObject({
      name: "r2",
      env: { SERVICE_PORT: "9000", SERVICE_PUBLIC_URL: `${at.base}/hello-dev?own` },
    });
    expect((await planned(at)).length).toBe(0);
  });
});
