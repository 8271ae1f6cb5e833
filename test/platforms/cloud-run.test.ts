import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { platformContract } from "../../src/deploy/platform-contract.ts";
import type { CloudRunFlags } from "../../src/plugins/platforms/cloud-run/flags.ts";
import cloudRunPlatform from "../../src/plugins/platforms/cloud-run/platform.ts";
import type { Template } from "../../src/plugins/platforms/cloud-run/service-types.ts";
import { checkGoogle } from "./contract/google.ts";
import type { CloudRunHarness } from "./google/harness.ts";
import { BROKEN, cloudRunHarness, deploy, ONE, secret, specOf, TWO } from "./google/harness.ts";

let at: CloudRunHarness;
const violations: string[] = [];

beforeEach(async () => {
  at = await cloudRunHarness();
});

afterEach(async () => {
  await at.close();
  violations.push(...at.emulator.recorder.violations);
  expect(at.emulator.recorder.violations).toEqual([]);
});

platformContract("cloud-run", {
  describe,
  it,
  setup: async () => ({
    platform: cloudRunPlatform,
    target: at.target(),
    tools: at.tools(),
    settings: [
      { private: true },
      { public: true },
      { scaleToZero: true },
      { alwaysOnCpu: true },
      { minInstances: 2 },
      { maxInstances: 4 },
      { concurrency: 40 },
      { cpu: "2" },
      { memory: "1Gi" },
      { serviceAccount: "runner@demo-project.iam.gserviceaccount.com" },
      { requestTimeout: 600 },
      { network: "agents" },
      { subnet: "agents-1" },
      { vpcEgress: "all-traffic" as const },
      { ingress: "internal-and-cloud-load-balancing" as const },
      { domain: "agents.example.com" },
    ],
    ways: ["useCloudBuild"],
    images: [ONE, TWO],
    changes: () => at.emulator.recorder.changes.length,
  }),
});

async function served(path = "/") {
  const front = at.emulator.frontFor("x.run.app");
  const headers = { "x-forwarded-host": "hello-dev-123456789012.us-central1.run.app" };
  const response = await fetch(`${front}${path}`, { headers });
  return { status: response.status, text: await response.text() };
}

const service = () => at.emulator.state.services.get("hello-dev");

describe("an export", () => {
  const exported = async (flags: CloudRunFlags, spec: Parameters<typeof deploy>[1]) => {
    const session = await at.connect(flags);
    const text = (await session.exports?.["cloud-run"]?.(spec)) ?? "";
    const path = "/apis/serving.knative.dev/v1/namespaces/demo-project/services";
    const body = parse(text) as Record<string, never>;
    const problems = checkGoogle("run", { method: "POST", path, query: new URLSearchParams(), body });
    // The model of metadata is that of a service; a template has no namespace.
    expect(problems.filter((one) => !one.endsWith('template.metadata lacks "namespace"'))).toEqual([]);
    return { text, body };
  };

  it("of a new service has what svc would create; its secrets are references", async () => {
    const spec = specOf(ONE, { secrets: { TOKEN: undefined } });

    const { text, body } = await exported({ private: true, cpu: "2", concurrency: 5 }, spec);

    expect(at.emulator.recorder.changes).toEqual([]);
    expect(body).toMatchObject({
      kind: "Service",
      metadata: { name: "hello-dev", annotations: { "run.googleapis.com/minScale": "1" } },
      spec: {
        template: {
          metadata: { annotations: { "run.googleapis.com/cpu-throttling": "false" } },
          spec: {
            containerConcurrency: 5,
            containers: [
              {
                image: ONE,
                resources: { limits: { cpu: "2", memory: "512Mi" } },
                env: [
                  { name: "GREETING", value: "hello" },
                  {
                    name: "TOKEN",
                    valueFrom: { secretKeyRef: { name: "hello-dev-TOKEN", key: "latest" } },
                  },
                ],
              },
            ],
          },
        },
      },
    });
    expect(text).not.toContain("invoker-iam-disabled");
  });

  it("of a running service keeps what it has, and is refused where it would lose something", async () => {
    const session = await at.connect({ memory: "1Gi", maxInstances: 4, public: true });
    const secrets = await session.putSecrets({ TOKEN: secret("planted-value") });
    await deploy(session, specOf(ONE, { secrets }));

    const template = service()?.resource.template as { encryptionKey?: unknown; annotations?: unknown };
    template.annotations = { team: "billing" };
    const { text, body } = await exported({}, specOf(TWO, { secrets }));
    template.encryptionKey = "projects/demo-project/locations/us-central1/keyRings/one/cryptoKeys/one";

    expect(body).toMatchObject({
      metadata: {
        labels: { "managed-by": "svc" },
        annotations: {
          "run.googleapis.com/maxScale": "4",
          "run.googleapis.com/invoker-iam-disabled": "true",
        },
      },
      spec: {
        template: {
          metadata: { annotations: { team: "billing" } },
          spec: { containers: [{ image: TWO, resources: { limits: { memory: "1Gi" } } }] },
        },
      },
    });
    expect(text).toContain('key: "1"');
    expect(text).not.toContain("planted-value");
    await expect(exported({}, specOf(TWO, { secrets }))).rejects.toMatchObject({
      message: expect.stringContaining("encryptionKey"),
    });
  });
});

describe("traps", () => {
  it("traffic pinned after a rollback: the next release takes all traffic again", async () => {
    const session = await at.connect();
    const first = await deploy(session, specOf(ONE));
    await deploy(session, specOf(TWO, { imageTag: "two" }));
    await session.rollback(first!);
    const pinned = await served();

    await deploy(session, specOf(TWO, { imageTag: "two", env: { GREETING: "again" } }));

    expect(pinned.text).toContain(ONE);
    expect((await served()).text).toContain("again");
    expect(service()?.resource.traffic).toEqual([
      { type: "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", percent: 100 },
    ]);
  });

  it("traffic pinned after a rollback: the plan says so", async () => {
    const session = await at.connect();
    const first = await deploy(session, specOf(ONE));
    await deploy(session, specOf(TWO));
    await session.rollback(first!);

    const actions = await session.plan(specOf(TWO), await session.inspect());

    expect(JSON.stringify(actions)).toContain("pinned to a revision");
  });

  it("a broken image never gets traffic, and the cause is reported", async () => {
    const session = await at.connect();
    await deploy(session, specOf(ONE));

    const failure = await session.release(specOf(BROKEN)).catch((error: unknown) => error);

    expect(failure).toMatchObject({
      code: "failed",
      detail: expect.stringContaining("HEALTH_CHECK_CONTAINER_ERROR"),
    });
    expect((failure as { log: string[] }).log.join()).toContain("exit(1)");
    expect((await served()).text).toContain(ONE);
  });

  it("a candidate is checked at its own address before it gets traffic", async () => {
    const session = await at.connect();
    await deploy(session, specOf(ONE));

    const held = await session.release(specOf(TWO));

    expect(held.noTraffic).toBe(true);
    expect(held.probeUrl).toMatch(/^https:\/\/candidate---/);
    const probe = await at.tools().fetch(held.probeUrl!);
    expect(await probe.text()).toContain(TWO);
    expect((await served()).text).toContain(ONE);
  });

  it("organization policy: the grant to everyone is refused, and the deployment continues and shows the command to run", async () => {
    at.emulator.state.switches.forbidAllUsers = true;
    at.emulator.state.switches.forbidInvokerCheckOff = true;
    const session = await at.connect();

    const release = await deploy(session, specOf(ONE));

    expect(release?.revision).toBe("hello-dev-00001-abc");
    expect(at.said.join("\n")).toContain("gcloud run services add-iam-policy-binding hello-dev");
    expect((await served()).status).toBe(403);
  });

  it("organization policy: if only the switch is forbidden, the grant opens the service", async () => {
    at.emulator.state.switches.forbidInvokerCheckOff = true;
    const session = await at.connect();

    await deploy(session, specOf(ONE));

    expect((await served()).status).toBe(200);
    expect(service()?.resource.invokerIamDisabled).toBeUndefined();
  });

  it("revision name conflict: a name that somebody else left in the template is not sent again", async () => {
    const session = await at.connect();
    await deploy(session, specOf(ONE));
    const live = service()!;
    live.resource.template = { ...(live.resource.template as object), revision: "hello-dev-00001-abc" };

    const release = await deploy(session, specOf(TWO));

    expect(release?.revision).toBe("hello-dev-00002-abc");
  });

  it("etag conflict: the service is read again and the change applied to its current state", async () => {
    const session = await at.connect();
    await deploy(session, specOf(ONE));
    at.emulator.recorder.fail(/^run PATCH/, {
      status: 409,
      body: { error: { code: 409, message: "unable to queue the operation", status: "ABORTED" } },
    });

    await deploy(session, specOf(TWO));

    expect((await served()).text).toContain(TWO);
    expect(service()?.revisions).toHaveLength(2);
  });

  it("a create that took effect although its response was lost is not sent twice", async () => {
    const session = await at.connect();
    let cut = false;
    const { recorder } = at.emulator;
    recorder.afterChange = (call) => {
      if (call.name.endsWith("/services") && call.name.includes("POST") && !cut) {
        cut = true;
        throw new Error("answer lost");
      }
    };

    const release = await deploy(session, specOf(ONE));

    expect(release?.revision).toBe("hello-dev-00001-abc");
    expect(service()?.revisions).toHaveLength(1);
  });

  it("disabled API that propagates slowly: it is enabled, and calls are repeated until it responds", async () => {
    at.emulator.state.apis.clear();
    const session = await at.connect();
    const findings = await session.preflight();

    await session.prepare?.();
    at.emulator.state.propagation = 6;
    await session.registryLogin();
    const release = await deploy(session, specOf(ONE));

    expect(findings.filter(({ level }) => level === "error")).toEqual([]);
    expect(findings.map(({ message }) => message).join()).toContain("disabled; `up` enables it");
    expect(findings.filter(({ subject }) => subject === "region")).toEqual([
      { level: "ok", subject: "region", message: expect.stringContaining("checked once run.googleapis.com") },
    ]);
    expect(release?.status).toBe("READY");
  });

  it("a disabled API that nobody enabled is reported immediately", async () => {
    at.emulator.state.apis.delete("run.googleapis.com");
    const session = await at.connect();

    const live = await session.inspect();
    const failure = await session.release(specOf(ONE)).catch((error: unknown) => error);

    expect(live).toBeUndefined();
    expect(failure).toMatchObject({ status: 403, reason: "SERVICE_DISABLED" });
  });

  it("a variable set elsewhere to the same value, and settings of the console, are no change", async () => {
    const session = await at.connect();
    await deploy(session, specOf(ONE));
    const live = service()!;
    const template = live.resource.template as Record<string, unknown>;
    template.vpcAccess = { connector: "projects/p/locations/r/connectors/c" };
    template.labels = { ...(template.labels as object), team: "billing" };

    await deploy(session, specOf(TWO));

    expect((service()!.resource.template as Record<string, unknown>).vpcAccess).toBeDefined();
  });

  it("PORT is set by the platform and is not sent", async () => {
    const session = await at.connect();

    const release = await deploy(session, specOf(ONE, { env: { PORT: "8000", A: "1" } }));

    expect(release?.env).toEqual({ A: "1" });
  });

  it("a service of that name that is not ours is neither changed nor removed", async () => {
    const session = await at.connect();
    await deploy(session, specOf(ONE));
    service()!.resource.labels = {};

    const findings = await session.preflight();
    const failure = await session.remove().catch((error: unknown) => error);

    expect(findings.some(({ level, subject }) => level === "error" && subject === "name")).toBe(true);
    expect(failure).toMatchObject({ outcome: "It was not changed" });
    expect(service()).toBeDefined();
  });
});

describe("secrets", () => {
  it("are pinned to a version, so that a rollback brings the old value back", async () => {
    const session = await at.connect();
    const first = await session.putSecrets({ KEY: secret("value-one-1") });
    const before = await deploy(session, specOf(ONE, { secrets: first }));
    const second = await session.putSecrets({ KEY: secret("value-two-22") });
    await deploy(session, specOf(ONE, { secrets: second }));
    const after = await served();

    await session.rollback(before!);

    expect(after.text).toContain("value-two-22");
    expect((await served()).text).toContain("value-one-1");
  });

  it("an unchanged value is not written again", async () => {
    const session = await at.connect();
    await session.putSecrets({ KEY: secret("same-value") });
    const before = at.emulator.recorder.changes.length;

    const again = await session.putSecrets({ KEY: secret("same-value") });

    expect(again.KEY?.ref).toMatch(/versions\/1$/);
    expect(at.emulator.recorder.changes).toHaveLength(before);
  });

  describe("that a run from another folder stored just before it was killed", () => {
    const versions = () => at.emulator.state.secrets.get("hello-dev-KEY")?.versions.length;
    /** Added, and not yet recorded; nothing of it is in the journal here. */
    async function killed(value: string): Promise<void> {
      await (await at.connect()).putSecrets({ KEY: secret("first-value-1") });
      at.emulator.state.secrets.get("hello-dev-KEY")!.versions.push({
        data: Buffer.from(value).toString("base64"),
      });
    }
    const put = async (value: string) =>
      (await (await at.connect()).putSecrets({ KEY: secret(value) })).KEY?.ref.split("/").at(-1);

    it("are not stored a second time, and from then on count as recorded", async () => {
      await killed("second-value-2");

      const resumed = await put("second-value-2");
      const before = at.emulator.recorder.changes.length;
      const again = await put("second-value-2");

      expect([resumed, again, versions()]).toEqual(["2", "2", 2]);
      expect(at.emulator.recorder.changes).toHaveLength(before);
    });

    it("are stored if the newest version has another value", async () => {
      await killed("value-of-somebody-else");

      expect([await put("second-value-2"), versions()]).toEqual(["3", 3]);
    });

    it.each([
      [403, "PERMISSION_DENIED"],
      [400, "FAILED_PRECONDITION"],
    ])("are stored again where the newest version cannot be read: %i %s", async (code, status) => {
      await killed("second-value-2");
      at.emulator.recorder.fail(/:access$/, {
        status: code,
        body: { error: { code, message: "not readable", status } },
      });

      expect([await put("second-value-2"), versions()]).toEqual(["3", 3]);
    });
  });

  it("other secrets of the same account are kept", async () => {
    const session = await at.connect();
    await session.putSecrets({ KEY: secret("mine") });
    at.emulator.state.secrets.set("hello-dev-OTHER", {
      resource: { name: "projects/1/secrets/hello-dev-OTHER", labels: {} },
      versions: [],
      policy: { etag: "x", bindings: [] },
    });

    await session.dropSecrets(["KEY", "OTHER"]);

    expect([...at.emulator.state.secrets.keys()]).toEqual(["hello-dev-OTHER"]);
  });
});

describe("preflight", () => {
  it("names each missing permission and where credentials and project come from", async () => {
    at.emulator.state.lacking.add("run.services.create");
    at.emulator.state.lacking.add("iam.serviceAccounts.actAs");
    const session = await at.connect();

    const findings = await session.preflight();

    const text = findings.map(({ level, message }) => `${level} ${message}`).join("\n");
    expect(text).toContain("error run.services.create is missing");
    expect(text).toContain("error iam.serviceAccounts.actAs is missing on 123456789012-compute@");
    expect(text).toContain("CLOUDSDK_AUTH_ACCESS_TOKEN");
    expect(at.emulator.recorder.changes).toEqual([]);
  });

  it("reports disabled billing, and contradictory instance limits", async () => {
    at.emulator.state.switches.billing = false;
    const session = await at.connect({ minInstances: 5, maxInstances: 2 });

    const errors = (await session.preflight()).filter(({ level }) => level === "error");

    expect(errors.map(({ subject }) => subject).sort()).toEqual(["billing", "instances"]);
  });
});

describe("remote build", () => {
  const context = {
    tag: "one",
    hash: "0".repeat(64),
    pack: async function* () {
      yield Buffer.from("arch");
      yield Buffer.from("ive");
    },
    onLine: (line: string) => void at.said.push(line),
  };
  const ref = "us-central1-docker.pkg.dev/demo-project/agent-services/hello-dev:one";

  beforeEach(() => {
    for (const api of ["cloudbuild.googleapis.com", "storage.googleapis.com"])
      at.emulator.state.apis.add(api);
    at.emulator.state.switches.builtImage = ONE;
  });

  it("uploads the source, builds and reports the digest and the log", async () => {
    const session = await at.connect({ useCloudBuild: true });

    const digest = await session.build?.(context, ref);

    expect(digest).toBe(ONE.split("@")[1]);
    expect(at.said.join()).toContain("FROM node:22-slim");
  });

  it("uses Cloud Build's own API if the newer one is not open to the caller", async () => {
    at.emulator.state.switches.noSubmitApi = true;
    const session = await at.connect({ useCloudBuild: true });

    expect(await session.build?.(context, ref)).toBe(ONE.split("@")[1]);
  });

  it("unreadable logs never fail a deployment", async () => {
    at.emulator.state.switches.unreadableLogs = true;
    const session = await at.connect({ useCloudBuild: true });

    expect(await session.build?.(context, ref)).toBe(ONE.split("@")[1]);
  });

  it("a failed build is reported with the reason", async () => {
    at.emulator.state.switches.failBuild = true;
    const session = await at.connect({ useCloudBuild: true });

    const failure = await session.build?.(context, ref).catch((error: unknown) => error);

    expect(failure).toMatchObject({ code: "build_failed", detail: expect.stringContaining("FAILURE") });
  });

  it("bucket squatting: nothing is uploaded to a bucket of somebody else's project", async () => {
    at.emulator.state.buckets.set("run-sources-demo-project-us-central1", {
      projectNumber: "999999999999",
      objects: new Map(),
    });
    const session = await at.connect({ useCloudBuild: true });

    const failure = await session.build?.(context, ref).catch((error: unknown) => error);

    expect(failure).toMatchObject({ outcome: "Nothing was uploaded" });
    expect(at.emulator.recorder.changes.filter((name) => name.includes("/upload/"))).toEqual([]);
  });
});

it("scales to zero before it removes, and keeps images", async () => {
  const session = await at.connect();
  await session.registryLogin();
  await deploy(session, specOf(ONE));

  await session.scaleToZero();
  const scaled = await session.inspect();
  await session.remove();

  expect(scaled?.status).toBe("SCALED_TO_ZERO");
  expect(service()).toBeUndefined();
  expect(at.emulator.state.repositories.size).toBe(1);
});

describe("a new service", () => {
  const resources = () => (service()?.resource.template as Template | undefined)?.containers?.[0]?.resources;

  it("has CPU around the clock and one instance, and the plan names the price of it", async () => {
    const session = await at.connect({ maxInstances: 1 });

    const estimate = await session.estimate?.(specOf(ONE));
    await deploy(session, specOf(ONE));

    expect(resources()?.cpuIdle ?? false).toBe(false);
    expect(service()?.resource.scaling).toEqual({ minInstanceCount: 1, maxInstanceCount: 1 });
    expect(estimate?.cost?.text).toMatch(/^about \$49\.93 a month for one instance around the clock/);
    expect((await session.preflight()).map(({ subject }) => subject)).not.toContain("cpu");
  });

  it("with a database has a limit of instances and of requests, and CPU around the clock", async () => {
    const cheap = await at.connect({ maxInstances: 1, scaleToZero: true });
    await deploy(cheap, specOf(ONE));
    const session = await at.connect(cloudRunPlatform.withDatabase ?? {});

    const actions = await session.plan(specOf(ONE), await session.inspect());
    await deploy(session, specOf(ONE));

    expect(JSON.stringify(actions)).toContain('{"field":"cpu_between_requests","from":"false","to":"true"}');
    expect(resources()?.cpuIdle ?? false).toBe(false);
    expect(service()?.resource.scaling).toMatchObject({ maxInstanceCount: 3 });
    expect(service()?.resource.template).toMatchObject({ maxInstanceRequestConcurrency: 80 });
  });

  it("--scale-to-zero is the cheap mode, reported with its effect on jobs", async () => {
    const session = await at.connect({ maxInstances: 1, scaleToZero: true });

    const estimate = await session.estimate?.(specOf(ONE));
    await deploy(session, specOf(ONE));
    const later = await at.connect({ maxInstances: 1 });

    expect(resources()?.cpuIdle).toBe(true);
    expect(service()?.resource.scaling).toEqual({ maxInstanceCount: 1 });
    expect(estimate?.cost?.text).toMatch(/^about \$0\.00 a month idle, \$0\.09 for each hour/);
    expect(await later.preflight()).toContainEqual(
      expect.objectContaining({
        level: "warning",
        subject: "cpu",
        message: expect.stringMatching(/jobs pause/),
      }),
    );
  });

  it.each([
    [{ private: true, public: true }, "--private and --public"],
    [{ scaleToZero: true, alwaysOnCpu: true }, "--scale-to-zero and --always-on-cpu"],
    [{ scaleToZero: true, minInstances: 1 }, "--scale-to-zero and --min-instances"],
    [{ network: "none", subnet: "one" }, "--network none and --subnet"],
    [{ network: "none", vpcEgress: "all-traffic" as const }, "--network none and --vpc-egress"],
  ])("options that contradict each other are refused: %o", async (flags, message) => {
    await expect((async () => at.connect(flags))()).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining(message),
    });
  });

  it("whose first release failed is public once it is fixed, unless an option says otherwise", async () => {
    at.emulator.state.switches.forbidInvokerCheckOff = true;
    const session = await at.connect();
    await session.release(specOf(BROKEN)).catch(() => undefined);

    await deploy(session, specOf(ONE));

    expect((await served()).status).toBe(200);
  });
});

it("a private service stays private, and --private closes one that was open", async () => {
  await deploy(await at.connect({ private: true }), specOf(ONE));
  await deploy(await at.connect(), specOf(TWO));
  const kept = (await served()).status;
  await deploy(await at.connect({ public: true }), specOf(TWO));
  const opened = (await served()).status;
  await deploy(await at.connect({ private: true }), specOf(TWO));

  expect([kept, opened, (await served()).status]).toEqual([403, 200, 403]);
});

it("a changed secret is readable for the account that the service runs as", async () => {
  const account = "runner@demo-project.iam.gserviceaccount.com";
  await deploy(await at.connect({ serviceAccount: account }), specOf(ONE));
  const session = await at.connect();

  const secrets = await session.putSecrets({ KEY: secret("one-value-1") });
  const release = await deploy(session, specOf(TWO, { secrets }));

  expect(release?.secretNames).toEqual(["KEY"]);
});

it("a private service is checked with an access token of a service account that may issue identity tokens", async () => {
  at.emulator.state.account = "deployer@demo-project.iam.gserviceaccount.com";
  const session = await at.connect({ private: true });
  const release = await deploy(session, specOf(ONE));

  const headers = await session.probeHeaders?.();
  const front = at.emulator.frontFor("x.run.app");
  const host = new URL(release?.url ?? "").host;
  const statusWith = async (more: Record<string, string> = {}) =>
    (await fetch(`${front}/`, { headers: { "x-forwarded-host": host, ...more } })).status;

  expect(await session.probeBlocked?.()).toBeUndefined();
  expect([await statusWith(), await statusWith(headers)]).toEqual([403, 200]);
});

describe("the network", () => {
  const template = () => service()!.resource.template as Template;

  it("requests of a new service may last an hour, and those of one that runs as long as before", async () => {
    await deploy(await at.connect(), specOf(ONE));
    const made = template().timeout;
    service()!.resource.template = { ...template(), timeout: "300s" };

    await deploy(await at.connect(), specOf(TWO));

    expect([made, template().timeout]).toEqual(["3600s", "300s"]);
  });

  it("that was set elsewhere stays, is in every export, and gives way to the one of an option, as planned", async () => {
    const session = await at.connect();
    await deploy(session, specOf(ONE));
    const connector = "projects/p/locations/r/connectors/c";
    service()!.resource.template = { ...template(), vpcAccess: { connector, egress: "ALL_TRAFFIC" } };
    await deploy(session, specOf(TWO));
    const kept = template().vpcAccess;
    const yaml = parse((await session.exports?.["cloud-run"]?.(specOf(TWO))) ?? "");
    const terraform = await session.exports?.terraform?.(specOf(TWO));

    const named = await at.connect({ network: "agents", subnet: "agents-1" });
    const planned = JSON.stringify(await named.plan(specOf(TWO), await named.inspect()));
    await deploy(named, specOf(TWO));
    const moved = template().vpcAccess;
    const afterwards = parse((await session.exports?.["cloud-run"]?.(specOf(TWO))) ?? "");
    await deploy(await at.connect({ network: "none" }), specOf(TWO));

    expect(kept).toEqual({ connector, egress: "ALL_TRAFFIC" });
    expect(yaml.spec.template.metadata.annotations).toMatchObject({
      "run.googleapis.com/vpc-access-connector": connector,
      "run.googleapis.com/vpc-access-egress": "all-traffic",
    });
    expect(terraform).toContain(`connector = "${connector}"`);
    expect(planned).toContain('"from":"c, ALL_TRAFFIC","to":"agents/agents-1, ALL_TRAFFIC"');
    expect(moved).toEqual({
      egress: "ALL_TRAFFIC",
      networkInterfaces: [{ network: "agents", subnetwork: "agents-1" }],
    });
    expect(
      JSON.parse(afterwards.spec.template.metadata.annotations["run.googleapis.com/network-interfaces"]),
    ).toEqual([{ network: "agents", subnetwork: "agents-1" }]);
    expect(template().vpcAccess).toBeUndefined();
  });

  it("a service that takes requests from inside only is not checked from outside", async () => {
    const session = await at.connect();
    await deploy(session, specOf(ONE));
    const before = await session.probeBlocked?.();
    service()!.resource.ingress = "INGRESS_TRAFFIC_INTERNAL_ONLY";

    expect(before).toBeUndefined();
    expect(await session.probeBlocked?.()).toMatch(/takes requests from inside only/);
    await deploy(await at.connect({ ingress: "all" }), specOf(ONE));
    expect(await session.probeBlocked?.()).toBeUndefined();
  });

  it.each([
    ["ingress INGRESS_TRAFFIC_NONE", () => (service()!.resource.ingress = "INGRESS_TRAFFIC_NONE")],
    ["timeout 3.5s", () => (service()!.resource.template = { ...template(), timeout: "3.5s" })],
  ])("an export for gcloud refuses %s, which it has no word for", async (text, set) => {
    const session = await at.connect();
    await deploy(session, specOf(ONE));
    set();

    await expect(session.exports?.["cloud-run"]?.(specOf(ONE))).rejects.toThrow(text);
  });
});

it("a private service that these credentials cannot call is reported, with the check that counts", async () => {
  const session = await at.connect({ private: true });
  await deploy(session, specOf(ONE));

  expect(await session.probeBlocked?.()).toMatch(
    /is private, and the access token in CLOUDSDK_AUTH_ACCESS_TOKEN/,
  );
  await deploy(await at.connect({ public: true }), specOf(ONE));
  expect(await session.probeBlocked?.()).toBeUndefined();
});
