// @long
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { Deployment } from "../../src/deploy/deployment.ts";
import { rollback } from "../../src/deploy/rollback.ts";
import { up } from "../../src/deploy/up.ts";
import { FLOWS, type FlowPlatform } from "./flow/clouds.ts";
import { PushedImages } from "./flow/pushed-images.ts";
import { openSite, type Site } from "./flow/site.ts";

let at: Site;
afterEach(() => at.close());

/** A site whose processes are an hour old, however new their release is: no clock tells it from another one. */
const openOld = (flow: FlowPlatform) =>
  openSite(flow, { images: (pushed) => new PushedImages(pushed, { real: false, age: 3600 }) });

const consent = async () => true;

async function run<T>(command: (deployment: Deployment) => Promise<T>): Promise<T> {
  const deployment = await at.open();
  try {
    return await command(deployment);
  } finally {
    await deployment.close();
  }
}

const deploy = (version: string) => {
  at.write("src/controller.ts", `// ${version}`);
  return run((deployment) => up(deployment, consent));
};

/** A run whose machine stops before it hears the answer to its last change. */
async function deployAndDie(version: string, last: RegExp): Promise<void> {
  at.write("src/controller.ts", `// ${version}`);
  const { recorder } = at.cloud;
  const died = new Promise<void>((resolve) => {
    recorder.afterChange = (call) => {
      if (!last.test(call.name)) return undefined;
      recorder.afterChange = undefined;
      resolve();
      return new Promise(() => undefined);
    };
  });
  const deployment = await at.open();
  const ended = up(deployment, consent).then(() => "done", String);
  expect(await Promise.race([died, ended])).toBeUndefined();
  await deployment.close();
}

describe.each(FLOWS)("$name, a release whose processes are older than the run that releases it", (flow) => {
  it("serves after the up that follows a rollback immediately", async () => {
    at = await openOld(flow);
    const first = await deploy("one");
    const second = await deploy("two");
    const back = await run((deployment) => rollback(deployment, { to: undefined, consent }));

    const forth = await run((deployment) => up(deployment, consent));

    expect(back.release.image).toBe(first.image);
    expect(forth).toMatchObject({ changed: true, image: second.image, health: { status: "healthy" } });
    expect((await run(({ session }) => session.inspect()))?.image).toBe(second.image);
    expect(at.cloud.recorder.violations).toEqual([]);
  });
});

it("cloud-run, a release that differs from the one before in a setting alone, serves after a rollback too", async () => {
  at = await openSite(FLOWS.find(({ name }) => name === "cloud-run")!, { real: false });
  const images = at.images as PushedImages;
  await deploy("one");
  at.write("deploy.yaml", "platform: cloud-run\nname: hello\nmemory: 1Gi\n");
  const second = await run((deployment) => up(deployment, consent));
  await run((deployment) => rollback(deployment, { to: undefined, consent }));
  // Cloud Run keeps the processes of a revision without traffic for a while: no new one is started.
  images.age = 3600;

  const forth = await run((deployment) => up(deployment, consent));

  expect(forth).toMatchObject({ changed: true, release: { revision: second.release.revision } });
  expect((await run(({ session }) => session.inspect()))?.resources?.memory).toBe("1 GiB");
});

/** The call with which a platform gets an update. */
const UPDATES: Readonly<Record<string, RegExp>> = {
  "cloud-run": /^run PATCH/,
  "do-app-platform": /^PUT/,
  "aws-app-runner": /UpdateService/,
  "aws-ecs-express": /UpdateExpressGatewayService/,
};

describe.each(FLOWS)("$name, an update whose run was killed when the platform had accepted it", (flow) => {
  it("is completed from another checkout, and not rolled back", async () => {
    at = await openOld(flow);
    await deploy("one");
    await deployAndDie("two", UPDATES[flow.name]!);
    rmSync(join(at.cwd, ".deployment"), { recursive: true, force: true });
    const before = at.cloud.rollouts();

    const deployment = await at.open({ breakLock: true });
    const next = await up(deployment, consent).finally(() => deployment.close());

    expect(next.health.status).toBe("healthy");
    expect((await run(({ session }) => session.inspect()))?.image).toBe(next.image);
    expect(at.cloud.rollouts()).toBe(before);
    expect(at.cloud.recorder.violations).toEqual([]);
  });
});
