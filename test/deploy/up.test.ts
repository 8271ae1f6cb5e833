import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { DeployError } from "../../src/deploy/errors.ts";
import type { DeployEvent } from "../../src/deploy/events.ts";
import { prepare } from "../../src/deploy/plan.ts";
import { up } from "../../src/deploy/up.ts";
import type { Stage } from "./_fixture.ts";
import { allText, stage, writeAll } from "./_fixture.ts";

const yes = async () => true;

async function deploy(at: Stage, ...args: Parameters<Stage["open"]>) {
  const deployment = await at.open(...args);
  try {
    return await up(deployment, yes);
  } finally {
    await deployment.close();
  }
}

async function failure(promise: Promise<unknown>): Promise<DeployError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof DeployError)) throw new Error(`expected a DeployError, got ${String(error)}`);
  return error;
}

function steps(events: readonly DeployEvent[]): string[] {
  return events.flatMap((event) => (event.type === "end" ? [`${event.id} ${event.outcome}`] : []));
}

function setConfig(at: Stage, text: string): void {
  writeAll(at.cwd, { ".deployment/config.yaml": text });
}

describe("deploying to a platform", () => {
  it("runs every step in order and records what runs", async () => {
    const at = await stage();

    const { result } = await deploy(at, { generateApiKey: true, generateRsa: true });

    expect(result).toMatchObject({ success: true, health_status: "healthy", revision: "r2" });
    expect(steps(at.events)).toEqual([
      "preflight done",
      "inspect done",
      "plan done",
      "files done",
      "prepare done",
      "build done",
      "secrets done",
      "release done",
      "url done",
      "health done",
      "state done",
    ]);
    expect(at.world.read().calls).toEqual([
      "role.create",
      "image.build",
      "secret.put SERVICE_API_KEY",
      "secret.put SERVICE_RSA_PRIVATE_KEY",
      "service.create",
      "service.update",
    ]);
    const state = JSON.parse(readFileSync(join(at.cwd, ".deployment/state/memory/hello-dev.json"), "utf8"));
    expect(state).toMatchObject({
      version: 2,
      platform: "memory",
      service_name: "hello-dev",
      status: "running",
      health_status: "healthy",
      api_key_generated: true,
      rsa_key_generated: true,
      revision: "r2",
    });
  });

  it("needs only one release if the URL is known before it", async () => {
    const at = await stage({ predictable: true });

    await deploy(at);

    expect(at.world.read().calls).toEqual(["role.create", "image.build", "service.create"]);
    expect(at.world.read().services["hello-dev"]?.revisions[0]?.env.SERVICE_PUBLIC_URL).toBe(
      `${at.base}/hello-dev`,
    );
  });

  it.each([
    [1, "1"],
    [undefined, undefined],
  ])("passes the platform's number of proxies to the service: %s", async (proxies, trusted) => {
    const at = await stage(proxies === undefined ? {} : { proxies });

    await deploy(at);

    expect(at.world.read().services["hello-dev"]?.revisions[0]?.env.SERVICE_TRUST_PROXY).toBe(trusted);
  });

  it("changes nothing the second time", async () => {
    const at = await stage();
    await deploy(at, { generateApiKey: true });
    const before = at.world.read().calls.length;

    const again = await deploy(at, { generateApiKey: true });

    expect(again).toMatchObject({ changed: false, result: { success: true } });
    expect(at.world.read().calls).toHaveLength(before);
  });

  it("plans and makes only the change of a variable", async () => {
    const at = await stage();
    await deploy(at);
    const before = at.world.read().calls.length;
    setConfig(at, 'environment: {LOG_LEVEL: "debug"}');

    const deployment = await at.open();
    const { plan } = await prepare(deployment);
    await deployment.close();
    const { result } = await deploy(at);

    const planned = plan.actions.filter((action) => action.action_type !== "noop");
    expect(planned).toHaveLength(1);
    expect(planned[0]?.metadata).toEqual({ changes: [{ field: "env.LOG_LEVEL", from: null, to: "debug" }] });
    expect(at.world.read().calls.slice(before)).toEqual(["service.update"]);
    expect(result.revision).toBe("r3");
  });

  it("a plan writes nothing, neither locally nor on the platform", async () => {
    const at = await stage();

    const deployment = await at.open({ generateApiKey: true });
    const { plan } = await prepare(deployment);

    expect(plan.actions.map((action) => [action.resource_type, action.action_type])).toEqual([
      ["image", "create"],
      ["secret", "create"],
      ["service", "create"],
    ]);
    expect(plan.target_secrets).toEqual({ SERVICE_API_KEY: "***" });
    expect(at.world.read().calls).toEqual([]);
    expect(existsSync(join(at.cwd, ".deployment"))).toBe(false);
  });

  it("a declined plan changes nothing", async () => {
    const at = await stage();
    const deployment = await at.open();

    const error = await failure(up(deployment, async () => false));

    expect(error).toMatchObject({ code: "declined", exitCode: 1 });
    expect(at.world.read().calls).toEqual([]);
  });

  it("a preflight error stops before anything is changed", async () => {
    const at = await stage();
    at.world.change((world) => {
      world.faults.preflight = "the token has expired";
    });

    const error = await failure(deploy(at));

    expect(error).toMatchObject({ exitCode: 5, fix: "memory auth login", outcome: "Nothing was changed" });
    expect(at.world.read().calls).toEqual([]);
  });

  it("a failed health check restores the previous release", async () => {
    const at = await stage();
    await deploy(at);
    setConfig(at, "environment: {SICK: '500'}");

    const error = await failure(deploy(at));

    expect(error).toMatchObject({ code: "rolled_back", exitCode: 3, detail: "answered 500" });
    expect(error.log).toEqual(["line one", "line two"]);
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r2");
    expect(at.world.read().calls.slice(-2)).toEqual(["service.update", "traffic.rollback"]);
  });

  it.each(["word", "status", "old", "other"])(
    "an invalid health response (%s) is a failed health check",
    async (sick) => {
      const at = await stage();
      await deploy(at);
      setConfig(at, `environment: {SICK: ${sick}}`);

      const error = await failure(deploy(at));

      expect(error.exitCode).toBe(3);
    },
  );

  it.each([
    ["variables", { GREETING: "other" }, {}],
    ["the public URL alone", {}, { publicUrl: "https://agents.example.com" }],
  ])(
    "the process of the previous release is not the new one, where they differ in %s",
    async (_, variables, options) => {
      const at = await stage();
      await deploy(at);
      at.world.change(({ services, faults }) => {
        for (const one of services["hello-dev"]!.revisions)
          Object.assign(one, { madeAt: Date.now() - 60_000 });
        faults.health = "previous";
      });
      writeAll(at.cwd, { "deploy.yaml": JSON.stringify({ variables }) });

      const error = await failure(deploy(at, options));

      expect(error).toMatchObject({ code: "rolled_back", detail: expect.stringContaining("still responds") });
    },
  );

  it("deploys again after a rollback, to the newest release", async () => {
    const at = await stage();
    await deploy(at);
    setConfig(at, "environment: {SICK: '500'}");
    await failure(deploy(at));
    setConfig(at, "environment: {CURED: 'yes'}");

    const { result } = await deploy(at);

    expect(result.revision).toBe("r4");
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r4");
  });

  it("--no-rollback keeps the failed release, and the next failure rolls back past it", async () => {
    const at = await stage();
    await deploy(at);
    setConfig(at, "environment: {SICK: '500'}");
    const kept = await failure(deploy(at, { rollback: false }));
    const serving = at.world.read().services["hello-dev"]?.serving;
    setConfig(at, "environment: {SICK: word}");

    const error = await failure(deploy(at));

    expect(kept).toMatchObject({ code: "unhealthy", exitCode: 1 });
    expect(serving).toBe("r3");
    expect(error.exitCode).toBe(3);
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r2");
  });

  it("a failed first release is kept, as there is none to roll back to", async () => {
    const at = await stage();
    setConfig(at, "environment: {SICK: '500'}");

    const error = await failure(deploy(at));

    expect(error).toMatchObject({ exitCode: 1 });
    expect(error.outcome).toMatch(/first release/);
  });

  it("a candidate release never gets traffic if it is unhealthy", async () => {
    const at = await stage({ predictable: true });
    await deploy(at, {}, { flags: { canary: true } });
    setConfig(at, "environment: {SICK: '500'}");

    const error = await failure(deploy(at, {}, { flags: { canary: true } }));

    expect(error.exitCode).toBe(3);
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r1");
    expect(at.world.read().calls).not.toContain("traffic.promote");
  });

  it("a candidate release gets traffic once it is healthy", async () => {
    const at = await stage({ predictable: true });
    await deploy(at, {}, { flags: { canary: true } });
    setConfig(at, "environment: {CURED: 'yes'}");

    const { release } = await deploy(at, {}, { flags: { canary: true } });

    expect(release.noTraffic).toBeUndefined();
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r2");
  });

  it("a refused call that changed nothing is a plain failure, with the provider's message", async () => {
    const at = await stage();
    await deploy(at);
    at.world.change((world) => {
      world.faults["service.update"] = "fail";
    });
    setConfig(at, "environment: {A: b}");

    const error = await failure(deploy(at));

    expect(error).toMatchObject({ exitCode: 1, detail: "MEMORY_403: not allowed" });
    expect(error.outcome).toBe("Nothing was released: revision r2 is still serving");
  });

  it("a crashing rollout is rolled back, with the container's last output", async () => {
    const at = await stage();
    await deploy(at);
    at.world.change((world) => {
      world.faults.rollout = "crash";
    });
    setConfig(at, "environment: {A: b}");

    const error = await failure(deploy(at));

    expect(error.exitCode).toBe(3);
    expect(error.log).toEqual(["Error: Cannot find module './controller.js'"]);
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r2");
  });

  it("after a lost response the state is read from the platform", async () => {
    const at = await stage({ predictable: true });
    await deploy(at);
    at.world.change((world) => {
      world.faults["service.update"] = "fail-after";
    });
    setConfig(at, "environment: {A: b}");

    const error = await failure(deploy(at));

    expect(error.exitCode).toBe(3);
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r1");
  });

  it("times out without calling it a failure, and continues when run again", async () => {
    const at = await stage({ predictable: true });
    at.world.change((world) => {
      world.faults["service.wait"] = "slow";
    });

    const error = await failure(deploy(at, { timeout: 0.3 }));
    at.world.change((world) => {
      delete world.faults["service.wait"];
    });
    const { result } = await deploy(at);

    expect(error).toMatchObject({ code: "timed_out", exitCode: 4 });
    expect(error.outcome).toMatch(/service\.create/);
    expect(result.success).toBe(true);
    expect(at.world.read().calls).toEqual(["role.create", "image.build", "service.create"]);
  });

  it("Ctrl-C leaves a run that can continue", async () => {
    const at = await stage({ predictable: true });
    at.world.change((world) => {
      world.faults["service.wait"] = "slow";
    });
    const stop = new AbortController();
    const stopping = deploy(at, {}, { signal: stop.signal });
    while (!at.world.read().calls.includes("service.create"))
      await new Promise((resolve) => setTimeout(resolve, 10));
    stop.abort();
    const error = await failure(stopping);
    at.world.change((world) => {
      delete world.faults["service.wait"];
    });

    const { result } = await deploy(at);

    expect(error).toMatchObject({ code: "interrupted", exitCode: 4 });
    expect(result.success).toBe(true);
    expect(at.world.read().calls).toEqual(["role.create", "image.build", "service.create"]);
  });

  it("refuses while another run holds the target, naming the holder", async () => {
    const at = await stage();
    const first = await at.open();
    await first.lock();

    const error = await failure(deploy(at));

    expect(error).toMatchObject({ exitCode: 6 });
    expect(error.message).toMatch(/process \d+ \(svc deploy up\)/);
  });

  it("refuses while another machine holds the target on the platform", async () => {
    const at = await stage({ locks: true });
    at.world.change((world) => {
      world.locks["hello-dev"] = "ann@elsewhere";
    });

    const error = await failure(deploy(at));

    expect(error).toMatchObject({ exitCode: 6 });
    expect(error.message).toMatch(/ann@elsewhere/);
  });

  it("reports what was changed outside svc", async () => {
    const at = await stage();
    await deploy(at);
    at.world.change((world) => {
      const revision = world.services["hello-dev"]?.revisions.at(-1);
      if (revision) revision.env.LOG_LEVEL = "trace";
    });

    await deploy(at);

    const notices = at.events.flatMap((event) => (event.type === "notice" ? [event.message] : []));
    expect(notices).toContain('Variables of "hello-dev" were changed outside svc: LOG_LEVEL');
  });

  it("secrets are written only to the vault", async () => {
    const at = await stage();
    setConfig(at, "secrets: [{name: ERP_TOKEN, value: planted-value-1}, {name: DB_PASSWORD}]");
    const env = {
      PATH: process.env.PATH,
      DB_PASSWORD: "planted-value-2",
      SERVICE_API_KEY: "planted-value-3",
    };

    await deploy(at, { generateApiKey: true }, { env });

    expect(at.world.read().secrets["hello-dev"]).toMatchObject({
      ERP_TOKEN: { value: "planted-value-1" },
      DB_PASSWORD: { value: "planted-value-2" },
      SERVICE_API_KEY: { value: "planted-value-3" },
    });
    writeAll(at.cwd, { ".deployment/config.yaml": "" });
    expect(allText(at.cwd)).not.toMatch(/planted-value/);
    expect(JSON.stringify(at.events)).not.toMatch(/planted-value/);
    expect(JSON.stringify(at.world.read().services)).not.toMatch(/planted-value/);
  });

  it("a changed secret creates a new release, even if the platform stores no hashes", async () => {
    const at = await stage({ annotations: false, predictable: true });
    const env = { PATH: process.env.PATH, SERVICE_API_KEY: "first-key-value" };
    await deploy(at, {}, { env });
    await deploy(at, {}, { env });
    const before = at.world.read().calls.length;

    await deploy(at, {}, { env: { ...env, SERVICE_API_KEY: "second-key-value" } });

    expect(at.world.read().calls.slice(before)).toEqual(["secret.put SERVICE_API_KEY", "service.update"]);
  });

  it("a secret that only the platform knows is kept", async () => {
    const at = await stage({ predictable: true });
    await deploy(at, { generateApiKey: true });
    setConfig(at, "environment: {A: b}");

    await deploy(at);

    expect(at.world.read().services["hello-dev"]?.revisions.at(-1)?.secrets).toEqual({
      SERVICE_API_KEY: "SERVICE_API_KEY:1",
    });
  });

  it("an ephemeral disk is warned about, and refused for prod without a consent of its own", async () => {
    const at = await stage({ ephemeralDisk: true });
    const prod = { env: "prod", generateApiKey: true };

    await deploy(at, { generateApiKey: true });
    const error = await failure(deploy(at, prod));
    const earlier = await failure(deploy(at, { ...prod, acceptDataLoss: true }));
    const accepted = await deploy(at, { ...prod, acceptEphemeralDisk: true });

    const warnings = at.events.flatMap((event) => (event.type === "notice" ? [event.message] : []));
    expect(warnings[0]).toMatch(/jobs, cases and a key/);
    expect(error.exitCode).toBe(5);
    expect(error.fix).toMatch(/"store: file" in deploy.yaml, or --accept-ephemeral-disk$/);
    expect(earlier).toMatchObject({
      exitCode: 5,
      fix: expect.stringMatching(/--accept-ephemeral-disk; --accept-data-loss accepts only .* open now/),
    });
    expect(accepted.result.success).toBe(true);
  });

  it("a service that only its platform can check is up by that check, and the report says so", async () => {
    const at = await stage({ predictable: true });
    const deployment = await at.open();
    Object.assign(deployment.session, { probeBlocked: async () => "the service is private" });

    const { result, health } = await up(deployment, yes);

    expect(result).toMatchObject({ success: true, health_status: "unknown" });
    expect(health.error_message).toBe("checked by memory only: the service is private");
  });

  it("a service with files has at most one instance", async () => {
    const at = await stage();

    setConfig(at, "store: file");
    const error = await failure(at.open({}, { flags: { maxInstances: 3 } }));
    setConfig(at, "store: external");
    const deployment = await at.open({}, { flags: { maxInstances: 3 } });

    expect(error).toMatchObject({ exitCode: 2 });
    expect(error.message).toMatch(/--max-instances 3/);
    expect(deployment.target.flags.maxInstances).toBe(3);
  });
});
