// @long
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { up } from "../../src/deploy/up.ts";
import { FLOWS } from "./flow/clouds.ts";
import type { Site } from "./flow/site.ts";
import { openSite } from "./flow/site.ts";

const EXPRESS = FLOWS.find(({ name }) => name === "aws-ecs-express")!;

let site: Site;
beforeEach(async () => {
  site = await openSite(EXPRESS, { real: false });
});
afterEach(() => site.close());

/** Deploys as from a machine that knows nothing of earlier deployments; the salt makes a build differ from others. */
async function deployAnew(salt: string) {
  rmSync(join(site.cwd, ".deployment"), { recursive: true, force: true });
  // As one that an earlier version deployed: what its image was built from is not known.
  forgetContexts(site.cloud.state);
  const deployment = await site.open(
    {},
    { SERVICE_API_KEY: "planted-api-key-0123456789", STAND_IN_SALT: salt },
  );
  try {
    return await up(deployment, async () => true);
  } finally {
    await deployment.close();
  }
}

function forgetContexts(state: unknown): void {
  if (typeof state !== "object" || state === null) return;
  for (const value of state instanceof Map ? state.values() : Object.values(state)) forgetContexts(value);
  if (Array.isArray(state)) {
    const kept = state.filter((one) => one?.name !== "SVC_CONTEXT");
    if (kept.length < state.length) state.splice(0, state.length, ...kept);
  }
}

const pushes = () =>
  readFileSync(join(site.env.STAND_IN_IMAGES ?? "", "arguments"), "utf8")
    .split("\n")
    .filter((line) => line.includes(" push "))
    .map((line) => line.split(":").at(-1) ?? "");

describe("tags of ECR, which are immutable", () => {
  it("a rebuild of the same files with other bytes is pushed under its own tag", async () => {
    const first = await deployAnew("one");
    const second = await deployAnew("two");

    const [tag = "", own = ""] = pushes();
    expect(second.result.success).toBe(true);
    expect(second.image).not.toBe(first.image);
    expect(own).toMatch(new RegExp(`^${tag}-[0-9a-f]{12}$`));
    expect(site.cloud.recorder.violations).toEqual([]);
  });

  it("a build that was pushed before is not pushed again", async () => {
    await deployAnew("one");
    const second = await deployAnew("two");
    const third = await deployAnew("two");

    expect(third.image).toBe(second.image);
    expect(pushes()).toHaveLength(2);
  });
});
