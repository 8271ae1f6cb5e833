import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { down } from "../../src/core/deploy/down.ts";
import type { DeployOptions } from "../../src/core/deploy/options.ts";
import { prepare } from "../../src/core/deploy/plan.ts";
import { rollback } from "../../src/core/deploy/rollback.ts";
import { up } from "../../src/core/deploy/up.ts";
import { FLOWS } from "./flow/clouds.ts";
import type { Site } from "./flow/site.ts";
import { openSite } from "./flow/site.ts";

/** Passwords of the emulated registries. */
const LOGINS = ["lab-google-token", "lab-ecr-password", "lab-do-token"];
const API_KEY = "planted-api-key-0123456789";

let site: Site | undefined;
afterEach(async () => {
  await site?.close();
  site = undefined;
});

async function withDeployment<T>(
  at: Site,
  options: Partial<DeployOptions>,
  body: (deployment: Awaited<ReturnType<Site["open"]>>) => Promise<T>,
): Promise<T> {
  const deployment = await at.open(options, { SERVICE_API_KEY: API_KEY });
  try {
    return await body(deployment);
  } finally {
    await deployment.close();
  }
}

describe.each(FLOWS)("$name, from the first plan to the last removal", (flow) => {
  it("plans, deploys, changes, rolls back and removes as a user would run it", async () => {
    const at = await openSite(flow, { real: true });
    site = at;
    at.cloud.plant();
    const plan = async () => (await withDeployment(at, {}, prepare)).plan;
    const deploy = (options: Partial<DeployOptions> = {}) =>
      withDeployment(at, options, (deployment) => up(deployment, async () => true));
    const kinds = (actions: readonly { action_type: string }[]) =>
      new Set(actions.map((one) => one.action_type));

    const first = await plan();
    expect(kinds(first.actions.filter((one) => one.resource_name !== "team"))).toEqual(new Set(["create"]));
    expect(at.cloud.recorder.changes).toEqual([]);

    const made = await deploy();
    expect(made.result).toMatchObject({ success: true, health_status: "healthy" });
    expect(made.result.service_url).toMatch(/^https:\/\//);
    expect(await runJob(at, made.result.service_url ?? "")).toBe("completed");

    const rollouts = at.cloud.rollouts();
    expect(kinds((await plan()).actions)).toEqual(new Set(["noop"]));
    const again = await deploy();
    expect(again.changed).toBe(false);
    expect(at.cloud.rollouts()).toBe(rollouts);

    at.write(".deployment/config.yaml", "environment:\n  GREETING: good day\nsecrets: []\n");
    const changed = (await plan()).actions.filter((one) => one.action_type !== "noop");
    expect(changed.map((one) => one.resource_type).sort()).toEqual(["environment_variable", "service"]);
    expect(JSON.stringify(changed)).toContain("GREETING");
    await deploy();
    expect(at.cloud.rollouts()).toBeGreaterThan(rollouts);

    at.write("src/controller.ts", "export default { version: 2 };\n");
    const second = await deploy();
    expect(second.image).not.toBe(made.image);

    at.write("src/controller.ts", "// crash at start\n");
    await expect(deploy()).rejects.toMatchObject({ exitCode: 3, code: "rolled_back" });
    expect(await runJob(at, second.result.service_url ?? "")).toBe("completed");
    await expect(deploy({ rollback: false })).rejects.toMatchObject({ name: "DeployError" });

    at.write("src/controller.ts", "export default { version: 3 };\n");
    const third = await deploy();
    expect(third.result.success).toBe(true);
    const back = await withDeployment(at, {}, (deployment) =>
      rollback(deployment, { to: undefined, consent: async () => true }),
    );
    expect(back.release.image).not.toBe(third.image);

    const remove = () => withDeployment(at, {}, (deployment) => down(deployment, async () => true));
    expect((await remove()).removed.length).toBeGreaterThan(0);
    expect((await remove()).removed).toEqual([]);
    expect(at.cloud.foreign()).toBe(2);

    expect(at.cloud.recorder.violations).toEqual([]);
    const args = readFileSync(join(at.env.STAND_IN_IMAGES ?? "", "arguments"), "utf8");
    for (const hidden of [API_KEY, ...LOGINS]) expect(args).not.toContain(hidden);
    expect(allText(at.cwd)).not.toContain(API_KEY);
    expect(JSON.stringify(at.events)).not.toContain(API_KEY);
  }, 120_000);
});

async function runJob(at: Site, url: string): Promise<string> {
  const host = new URL(url).host;
  const front = at.cloud.frontFor(host) ?? "";
  const headers = { "x-forwarded-host": host, "x-api-key": API_KEY, "content-type": "application/json" };
  const id = `job-${Math.random().toString(36).slice(2)}`;
  const job_context = {
    workspace_id: "w",
    job_id: id,
    started_by: "test",
    started_at: new Date().toISOString(),
    mission_id: "m",
    mission_name: "m",
  };
  const started = await fetch(`${front}/agents/greeter/jobs`, {
    method: "POST",
    headers,
    body: JSON.stringify({ job_context, job_fields: {} }),
  });
  if (started.status !== 202) return `start: ${started.status} ${await started.text()}`;
  for (let tries = 0; tries < 100; tries++) {
    const response = await fetch(`${front}/jobs/${id}`, { headers });
    const { status } = (await response.json()) as { status: string };
    if (status !== "in_progress" && status !== "stopped") return status;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return "still running";
}

/** All text under a folder, to look for what must not be there. */
function allText(folder: string): string {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((file) => join(folder, file))
    .filter((file) => statSync(file).isFile())
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");
}
