// @long
import { afterEach, describe, expect, it } from "vitest";
import type { DeployOptions } from "../../src/deploy/options.ts";
import { up } from "../../src/deploy/up.ts";
import { FLOWS } from "./flow/clouds.ts";
import type { Site } from "./flow/site.ts";
import { openSite } from "./flow/site.ts";

let at: Site;
afterEach(() => at.close());

async function deploy(controller: string, options: Partial<DeployOptions> = {}) {
  at.write("src/controller.ts", controller);
  const deployment = await at.open(options);
  try {
    return await up(deployment, async () => true);
  } finally {
    await deployment.close();
  }
}

async function liveImage(): Promise<string | undefined> {
  const deployment = await at.open();
  try {
    return (await deployment.session.inspect())?.image;
  } finally {
    await deployment.close();
  }
}

it("cloud-run: the candidate's health is checked, and an unhealthy one never gets traffic", async () => {
  at = await openSite(FLOWS[0]!, { real: false });
  const first = await deploy("// one");
  const served: unknown[] = [];
  at.cloud.recorder.afterChange = async () => {
    const headers = { "x-forwarded-host": "hello-dev-123456789012.us-central1.run.app" };
    const answer = await fetch(`${at.cloud.frontFor("x.run.app")}/`, { headers });
    served.push(((await answer.json()) as { image: string }).image);
  };

  const failure = await deploy("// never healthy").catch((error: unknown) => error);

  expect(failure).toMatchObject({ code: "rolled_back", exitCode: 3 });
  expect(String(failure)).toContain("https://candidate---");
  expect(new Set(served)).toEqual(new Set([first.image]));
  expect(await liveImage()).toBe(first.image);
});

describe.each(FLOWS.filter(({ rollsBackItself }) => !rollsBackItself))("$name", (flow) => {
  it("after a release that failed before it served and is kept by --no-rollback, the serving one remains the rollback target", async () => {
    at = await openSite(flow, { real: false });
    await deploy("// one");
    const second = await deploy("// two");

    const kept = await deploy("// crash at start", { rollback: false }).catch((error: unknown) => error);
    const failure = await deploy("// crash at start, again").catch((error: unknown) => error);

    expect(kept).toMatchObject({ code: "failed", outcome: expect.stringContaining("is still serving") });
    expect(failure).toMatchObject({ code: "rolled_back" });
    expect(await liveImage()).toBe(second.image);
    expect(at.cloud.recorder.violations).toEqual([]);
  });
});
