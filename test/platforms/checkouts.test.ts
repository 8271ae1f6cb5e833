// @long
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Deployment } from "../../src/deploy/deployment.ts";
import type { DeployError } from "../../src/deploy/errors.ts";
import { checkLabels } from "../../src/deploy/labels.ts";
import { rollback } from "../../src/deploy/rollback.ts";
import { status } from "../../src/deploy/status.ts";
import { up } from "../../src/deploy/up.ts";
import server from "../../src/plugins/platforms/server/platform.ts";
import { sharedRsaKey } from "../../src/testing/rsa-key.ts";
import { FLOWS } from "./flow/clouds.ts";
import type { Site } from "./flow/site.ts";
import { openSite } from "./flow/site.ts";

let at: Site;
afterEach(() => at.close());

const consent = async () => true;
/** What taking and leaving the lock of a target changes. */
const LOCK_CALLS = 4;

/** A command in a fresh clone: nothing is left of what earlier ones recorded on this machine. */
async function inClone<T>(
  command: (deployment: Deployment) => Promise<T>,
  env: Readonly<Record<string, string>> = {},
): Promise<T> {
  rmSync(join(at.cwd, ".deployment"), { recursive: true, force: true });
  const deployment = await at.open({}, env);
  try {
    return await command(deployment);
  } finally {
    await deployment.close();
  }
}

async function deploy(version: string): Promise<string> {
  at.write("src/controller.ts", `// ${version}`);
  return (await inClone((deployment) => up(deployment, consent))).image;
}

const back = (to?: string) =>
  inClone(async (deployment) => (await rollback(deployment, { to, consent })).release);

const LABELLED = FLOWS.filter(({ name }) => name !== "do-app-platform");

describe.each(LABELLED)("labels on $name", (flow) => {
  it("are set, changed and removed by name, without a new revision, and others stay", async () => {
    at = await openSite(flow, { real: false });
    const release = async (labels: string) => {
      at.write("deploy.yaml", `platform: ${flow.name}\nname: hello\n${labels}`);
      const { plan } = await inClone(async (deployment) => {
        let planned = "";
        await up(deployment, async (shown) => {
          planned = JSON.stringify(shown);
          return true;
        });
        return { plan: planned };
      });
      return { plan, labels: at.cloud.labels()!, rollouts: at.cloud.rollouts() };
    };

    const first = await release("labels: { team: billing, cost: '42' }\n");
    const second = await release("labels: { team: agents, cost: null }\n");
    const third = await release("");
    const changes = at.cloud.recorder.changes.length;
    await release("labels: { team: agents }\n");

    expect(first.labels).toMatchObject({ team: "billing", cost: "42", "managed-by": "svc" });
    expect(second.plan).toContain('"field":"label.team","from":"billing","to":"agents"');
    expect(second.plan).toContain('"field":"label.cost","from":"42","to":null');
    expect(second.labels).toMatchObject({ team: "agents", "managed-by": "svc" });
    expect(Object.keys(second.labels)).not.toContain("cost");
    expect(second.rollouts).toBe(first.rollouts);
    expect(third.labels).toEqual(second.labels);
    expect(at.cloud.recorder.changes.length - changes).toBeLessThanOrEqual(LOCK_CALLS);
    expect(at.cloud.recorder.violations).toEqual([]);
  });
});

it.each([
  ["do-app-platform", "team: a", /services on do-app-platform have no labels/],
  ["cloud-run", "Team: a", /lower-case letters/],
  ["aws-ecs-express", '"aws:x": a', /reserved/],
  ["aws-app-runner", "svc-service: a", /svc sets this one itself/],
])("on %s, the label %s is refused before anything is done", async (name, label, message) => {
  at = await openSite(FLOWS.find((flow) => flow.name === name)!, { real: false });
  at.write("deploy.yaml", `platform: ${name}\nname: hello\nlabels: { ${label} }\n`);

  await expect(inClone((deployment) => up(deployment, consent))).rejects.toMatchObject({
    code: "bad_config",
    message: expect.stringMatching(message),
  });
  expect(at.cloud.recorder.changes).toEqual([]);
});

it("on a server, a label by which svc finds its containers is refused", () => {
  expect(() => checkLabels(server, { "agent-control-service.record": "mine" })).toThrow(
    /svc finds its containers/,
  );
  expect(() => checkLabels(server, { "agent-control-service": "mine", team: "a" })).not.toThrow();
});

describe.each(FLOWS)("$name, each command from another checkout", (flow) => {
  it("rolls back to the release before, or to a named one, and says what serves", async () => {
    at = await openSite(flow, { real: false });
    const one = await deploy("one");
    const first = await inClone((deployment) => deployment.session.inspect());
    const two = await deploy("two");
    const three = await deploy("three");

    const before = await back();
    const unknown = await back("no-such-revision").catch(String);
    const named = await back(first!.revision);

    expect(new Set([one, two, three]).size).toBe(3);
    expect(before.image).toBe(two);
    expect(unknown).toContain("no such revision");
    expect(named.image).toBe(one);
    expect((await inClone(status)).live?.image).toBe(one);
    expect(at.cloud.recorder.violations).toEqual([]);
  });
});

// App Platform has no place for a lock.
describe.each(LABELLED)("$name, a rollback that was killed in another checkout", (flow) => {
  /** Leaves the lock behind, as a killed rollback on another machine does. */
  const kill = async () => void (await (await at.open({}, {}, undefined, "svc deploy rollback")).lock());
  const repeat = async (to?: string) => {
    rmSync(join(at.cwd, ".deployment"), { recursive: true, force: true });
    const deployment = await at.open({ breakLock: true });
    try {
      return (await rollback(deployment, { to, consent })).release;
    } finally {
      await deployment.close();
    }
  };

  it("asks what should serve when it is repeated, and completes that", async () => {
    at = await openSite(flow, { real: false });
    const one = await deploy("one");
    const first = (await inClone((deployment) => deployment.session.inspect()))!.revision;
    await deploy("two");
    await kill();
    const refused = await repeat().catch((error: DeployError) => error);
    await kill();
    const back = await repeat(first);
    await kill();

    const again = await repeat(back.revision);

    expect(refused).toMatchObject({
      code: "usage",
      outcome: "Nothing was changed",
      message: expect.stringMatching(/rollback was interrupted: that of .+@.+svc deploy rollback/),
      fix: expect.stringMatching(`--to .*${first}`),
    });
    expect([back.image, again.image]).toEqual([one, one]);
    expect(again.revision).toBe(back.revision);
    expect(at.cloud.recorder.violations).toEqual([]);
  });
});

/** Settings of everything that a platform has a setting for. */
const NAMED: Readonly<Record<string, string>> = {
  "cloud-run":
    "minInstances: 1\nmaxInstances: 3\nconcurrency: 12\ncpu: '2'\nmemory: 2Gi\nprivate: true\nserviceAccount: robot@demo-project.iam.gserviceaccount.com",
  "aws-app-runner": "minInstances: 2\nmaxInstances: 3\nconcurrency: 40\ncpu: '2048'\nmemory: '4096'",
  "aws-ecs-express": "minInstances: 2\nmaxInstances: 3\nscaleAtCpu: 55\ncpu: '512'\nmemory: '1024'",
  "do-app-platform": "minInstances: 2\nmaxInstances: 3\nscaleAtCpu: 70\nsize: apps-d-1vcpu-1gb",
};

describe.each(FLOWS)("$name, a fresh clone in a pipeline", (flow) => {
  const stores =
    flow.name === "do-app-platform" ? ["store: external"] : ["store: external", "storage: create"];
  it.each(stores)("changes nothing that it does not name (%s)", async (store) => {
    at = await openSite(flow, { real: false });
    const values = {
      ERP_TOKEN: "erp-token-of-the-laptop",
      SERVICE_API_KEY: "key-of-the-laptop-0123456789",
    };
    const keys = { ...values, SERVICE_RSA_PRIVATE_KEY: await sharedRsaKey() };
    const common = `platform: ${flow.name}\nname: hello\n`;
    // One instance has a bucket.
    const named = NAMED[flow.name]?.replace(
      store === "storage: create" ? /m(in|ax)Instances: \d\n/g : /^$/,
      "",
    );
    at.write(
      "deploy.yaml",
      `${common}${named}\nport: 8080\npublicUrl: https://agents.example.com\n${store}\nvariables: { LOG_LEVEL: debug, TEAM: finance }\nsecrets: { ERP_TOKEN: , SERVICE_RSA_PRIVATE_KEY: }\n`,
    );
    const release = (env: Readonly<Record<string, string>>) =>
      inClone((deployment) => up(deployment, consent), env);
    const settings = () =>
      JSON.stringify(at.cloud.settings(), null, 1)
        .replace(/sha256:[0-9a-f]{64}|(?<=hello-dev:)[\w.-]+/g, "IMAGE")
        .replace(/(?<="SVC_(CONTEXT|RELEASE)",\s+"value": |"SVC_(CONTEXT|RELEASE)": )"[^"]*"/g, '"MARK"');

    const without = { SERVICE_API_KEY: "" };
    const first = await release(keys);
    const before = settings();
    at.write("deploy.yaml", common);
    const same = await release(without);
    at.write("src/controller.ts", "// changed");
    const next = await release(without);

    expect(same.changed).toBe(false);
    expect([next.changed, next.image === first.image]).toEqual([true, false]);
    for (const text of ["agents.example.com", "finance", "8080", "ERP_TOKEN"]) expect(before).toContain(text);
    expect(JSON.parse(settings())).toEqual(JSON.parse(before));
    expect(at.cloud.recorder.violations).toEqual([]);
  });
});

// App Platform has no place for a lock.
describe.each(FLOWS.filter(({ name }) => name !== "do-app-platform"))("$name, two checkouts", (flow) => {
  it("deploys in one of two at the same time: the other is rejected by name and changes nothing", async () => {
    at = await openSite(flow, { real: false });
    await deploy("one");
    const [ours, theirs] = [await at.open(), await at.open({}, {}, secondCheckout())];
    try {
      const ended = await Promise.allSettled([up(ours, consent), up(theirs, consent)]);

      const won = ended.filter(({ status }) => status === "fulfilled");
      const [lost] = ended.flatMap((one) => (one.status === "rejected" ? [one.reason as DeployError] : []));
      expect(won).toHaveLength(1);
      expect(lost).toMatchObject({ code: "locked", exitCode: 6, outcome: "Nothing was changed" });
      expect(lost?.message).toMatch(/in progress: .+@.+ \(svc deploy\)/);
    } finally {
      await ours.close();
      await theirs.close();
    }
  });
});

it("do-app-platform, two checkouts: the one whose image does not serve in the end is rejected by its name", async () => {
  at = await openSite(FLOWS.find(({ name }) => name === "do-app-platform")!, { real: false });
  // Whether jobs are open is asked of the service, which does not respond while it is replaced.
  at.write("deploy.yaml", "platform: do-app-platform\nname: hello\nstore: external\n");
  await deploy("one");
  const other = secondCheckout();
  writeFileSync(join(other, "src/controller.ts"), "// three");
  const [ours, theirs] = [await at.open(), await at.open({}, {}, other)];
  try {
    const ended = await Promise.allSettled([up(ours, consent), up(theirs, consent)]);

    const [won] = ended.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const [lost] = ended.flatMap((one) => (one.status === "rejected" ? [one.reason as DeployError] : []));
    expect((await ours.session.inspect())?.image).toBe(won?.image);
    expect(lost).toMatchObject({ code: "superseded", exitCode: 6 });
    expect(lost?.message).toContain(won?.image);
    expect(at.cloud.recorder.violations).toEqual([]);
  } finally {
    await ours.close();
    await theirs.close();
  }
});

it("do-app-platform, a run whose plan another checkout's release made outdated is rejected, and changes nothing", async () => {
  at = await openSite(FLOWS.find(({ name }) => name === "do-app-platform")!, { real: false });
  await deploy("one");
  const other = secondCheckout();
  writeFileSync(
    join(other, "deploy.yaml"),
    "platform: do-app-platform\nname: hello\nvariables: { TEAM: finance }\n",
  );
  const [ours, theirs] = [await at.open(), await at.open({}, {}, other)];
  try {
    let between: Promise<unknown> | undefined;
    const lost = up(ours, async () => {
      between = up(theirs, consent);
      await between;
      return true;
    });

    await expect(lost).rejects.toMatchObject({ code: "superseded", exitCode: 6 });
    expect((await theirs.session.inspect())?.env).toMatchObject({ TEAM: "finance" });
    expect(between).toBeDefined();
    // Repeated, it takes what the other one has set into account.
    await inClone((deployment) => up(deployment, consent));
    expect((await theirs.session.inspect())?.env).toMatchObject({ TEAM: "finance" });
  } finally {
    await ours.close();
    await theirs.close();
  }
});

/** A copy of the project, with a version of its own. */
function secondCheckout(): string {
  const copy = join(at.cwd, "..", "other", "hello");
  cpSync(at.cwd, copy, { recursive: true });
  rmSync(join(copy, ".deployment"), { recursive: true, force: true });
  at.write("src/controller.ts", "// two");
  return copy;
}
