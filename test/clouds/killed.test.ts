import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { up } from "../../src/core/deploy/up.ts";
import type { FlowPlatform } from "./flow/clouds.ts";
import { FLOWS } from "./flow/clouds.ts";
import type { Site } from "./flow/site.ts";
import { openSite } from "./flow/site.ts";

const CHILD = new URL("flow/child.mjs", import.meta.url).pathname;
const FRONTS = [".run.app", ".ondigitalocean.app", ".awsapprunner.com", ".on.aws"];
const API_KEY = "planted-api-key-0123456789";
/** Children at a time. */
const WIDTH = 2;

const cache = mkdtempSync(join(tmpdir(), "svc-cloud-child-"));
afterAll(() => rmSync(cache, { recursive: true, force: true }));

/** Deploys in a process of its own, which is killed when its n-th change has taken effect and is not answered yet. */
async function runChild(flow: FlowPlatform, at: Site, killAt: number): Promise<NodeJS.Signals | null> {
  const options = {
    platform: flow.name,
    projectId: flow.projectId,
    cwd: at.cwd,
    env: { ...at.env, SERVICE_API_KEY: API_KEY },
    fronts: FRONTS.flatMap((end) => {
      const front = at.cloud.frontFor(`x${end}`);
      return front === undefined ? [] : [[end, front]];
    }),
  };
  const child: ChildProcess = spawn(process.execPath, [CHILD, JSON.stringify(options)], {
    cwd: new URL("../..", import.meta.url).pathname,
    env: { PATH: process.env.PATH ?? "", CHILD_CACHE: cache },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const ended = new Promise<NodeJS.Signals | null>((resolve) =>
    child.once("close", (_, signal) => resolve(signal)),
  );
  at.cloud.recorder.afterChange = async (_, count) => {
    if (count !== killAt) return;
    child.kill("SIGKILL");
    await ended;
  };
  const signal = await ended;
  at.cloud.recorder.afterChange = undefined;
  return signal;
}

async function resume(at: Site): Promise<boolean> {
  const deployment = await at.open({}, { SERVICE_API_KEY: API_KEY });
  try {
    return (await up(deployment, async () => true)).result.success;
  } finally {
    await deployment.close();
  }
}

describe.each(FLOWS)("a deployment to $name, killed at any change it makes", (flow) => {
  it("ends when it is run again as if it had not been killed: nothing twice, nothing forgotten", async () => {
    const undisturbed = await openSite(flow, { real: false });
    await resume(undisturbed);
    const shape = JSON.stringify(undisturbed.cloud.shape());
    const changes = undisturbed.cloud.recorder.changes.length;
    await undisturbed.close();

    const kills = Array.from({ length: changes }, (_, index) => index + 1);
    const failures: string[] = [];
    const work = async () => {
      for (let killAt = kills.shift(); killAt !== undefined; killAt = kills.shift()) {
        const at = await openSite(flow, { real: false });
        try {
          const signal = await runChild(flow, at, killAt);
          const last = at.cloud.recorder.changes.at(-1);
          const success = await resume(at).catch((error: unknown) => String(error));
          if (signal !== "SIGKILL") failures.push(`${killAt} ${last}: ended with ${signal}`);
          if (success !== true) failures.push(`${killAt} ${last}: ${success}`);
          const left = JSON.stringify(at.cloud.shape());
          if (left !== shape) failures.push(`${killAt} ${last}: ${left} instead of ${shape}`);
          failures.push(...at.cloud.recorder.violations);
        } finally {
          await at.close();
        }
      }
    };
    await Promise.all(Array.from({ length: WIDTH }, work));

    expect(changes).toBeGreaterThan(1);
    expect(failures).toEqual([]);
  }, 600_000);
});
