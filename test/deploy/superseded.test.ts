import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Platform, PlatformSession } from "../../src/deploy/platform.ts";
import { rollback } from "../../src/deploy/rollback.ts";
import { up } from "../../src/deploy/up.ts";
import type { Stage } from "./_fixture.ts";
import { PROJECT, stage, temporaryProject, writeAll } from "./_fixture.ts";

const yes = async () => true;

/** The platform, with something that happens behind one method of the sessions it opens. */
function meanwhile(
  at: Stage,
  method: "release" | "probeHeaders" | "rollback",
  happens: () => Promise<unknown>,
): Platform<never> {
  let once = true;
  return {
    ...at.platform,
    async connect(target: never, tools: never) {
      const session = (await at.platform.connect(target, tools)) as PlatformSession;
      const own = session[method] as ((...args: unknown[]) => Promise<unknown>) | undefined;
      return Object.assign(session, {
        async [method](...args: unknown[]) {
          try {
            return (await own?.apply(session, args)) ?? {};
          } finally {
            if (once) {
              once = false;
              await happens();
            }
          }
        },
      });
    },
  } as unknown as Platform<never>;
}

/** A checkout of the same project on another machine, with other sources. */
function otherCheckout(): string {
  return temporaryProject({ ...PROJECT, "src/controller.ts": "export default { other: true };\n" });
}

async function deploy(at: Stage, ...args: Parameters<Stage["open"]>) {
  const deployment = await at.open(...args);
  try {
    return await up(deployment, yes);
  } finally {
    await deployment.close();
  }
}

const stateOf = (cwd: string) => join(cwd, ".deployment/state/memory/hello-dev.json");

describe("two checkouts that deploy one service concurrently", () => {
  it.each(["release", "probeHeaders"] as const)(
    "the one whose image was replaced after its %s reports what serves, and records nothing",
    async (method) => {
      const at = await stage({ predictable: true });
      let winner: Awaited<ReturnType<typeof deploy>> | undefined;
      const platform = meanwhile(at, method, async () => {
        winner = await deploy(at, {}, { cwd: otherCheckout() });
      });

      const loser = await deploy(at, {}, { platform }).catch((error: unknown) => error);

      expect(loser).toMatchObject({
        code: "superseded",
        exitCode: 6,
        message: expect.stringContaining(winner!.image),
      });
      expect(existsSync(stateOf(at.cwd))).toBe(false);
      expect(winner!.result).toMatchObject({ success: true, health_status: "healthy" });
      expect(at.world.read().services["hello-dev"]?.serving).toBe("r2");
    },
  );

  it("the state file keeps the previous deployment, and the next one starts over", async () => {
    const at = await stage({ predictable: true });
    await deploy(at);
    const before = readFileSync(stateOf(at.cwd), "utf8");
    writeAll(at.cwd, { "src/controller.ts": "export default { second: true };\n" });
    const platform = meanwhile(at, "release", () => deploy(at, {}, { cwd: otherCheckout() }));

    await expect(deploy(at, {}, { platform })).rejects.toMatchObject({ code: "superseded" });
    const after = readFileSync(stateOf(at.cwd), "utf8");
    const again = await deploy(at);

    expect(after).toBe(before);
    expect(again.changed).toBe(true);
    expect(at.world.read().services["hello-dev"]?.revisions.at(-1)?.image).toBe(again.image);
  });

  it("a release that failed is not rolled back over another deployment's", async () => {
    const at = await stage({ predictable: true });
    await deploy(at);
    writeAll(at.cwd, { "src/controller.ts": "export default { second: true };\n" });
    at.world.change((world) => {
      world.faults.rollout = "crash";
    });
    const platform = meanwhile(at, "release", async () => {
      at.world.change((world) => {
        delete world.faults.rollout;
      });
      await deploy(at, {}, { cwd: otherCheckout() });
    });

    const loser = await deploy(at, {}, { platform }).catch((error: unknown) => error);

    expect(loser).toMatchObject({ code: "superseded" });
    expect(at.world.read().calls).not.toContain("traffic.rollback");
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r3");
  });

  it("a rollback that another deployment replaced is reported as such", async () => {
    const at = await stage({ predictable: true });
    await deploy(at);
    writeAll(at.cwd, { "src/controller.ts": "export default { second: true };\n" });
    await deploy(at);
    const platform = meanwhile(at, "rollback", () => deploy(at, {}, { cwd: otherCheckout() }));
    const deployment = await at.open({}, { platform });

    const back = rollback(deployment, { to: undefined, consent: yes });

    await expect(back).rejects.toMatchObject({ code: "superseded", exitCode: 6 });
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r3");
  });
});
