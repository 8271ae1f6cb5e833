import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDeployTools, platformContract } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import type { PlatformSession, Release } from "../../src/deploy/platform.ts";
import { memoryPlatform } from "./_memory-platform.ts";
import { openWorld, serveWorld } from "./_world.ts";

for (const canary of [false, true])
  platformContract(`memory, canary ${canary}`, {
    describe,
    it,
    setup: () => setup(canary),
  });

describe("the contract of platforms", () => {
  it.each<[string, (session: PlatformSession) => Partial<PlatformSession>]>([
    ["names no references", withLive((live) => ({ ...live, secrets: {} }))],
    ["reports neither references nor variables", withLive(({ secrets: _, env: __, ...live }) => live)],
    [
      "has one reference for all values",
      ({ listSecrets, putSecrets }) => ({
        listSecrets: async () => (await listSecrets()).map((one) => ({ ...one, ref: one.name })),
        async putSecrets(values) {
          await putSecrets(values);
          return Object.fromEntries(Object.keys(values).map((name) => [name, { name, ref: name }]));
        },
      }),
    ],
  ])("rejects a platform that %s, as it would forget a rotated secret", async (_, forget) => {
    const cases = new Map<string, () => Promise<void>>();
    platformContract("forgetful", {
      describe: (_, body) => body(),
      it: (title, body) => void cases.set(title, body),
      async setup() {
        const { platform, ...harness } = await setup(false);
        const forgetful: typeof platform = {
          ...platform,
          async connect(target, tools) {
            const session = await platform.connect(target, tools);
            return { ...session, ...forget(session) };
          },
        };
        return { ...harness, platform: forgetful };
      },
    });
    const rotation = [...cases].find(([title]) => title.startsWith("another value of a secret"))?.[1];

    await expect(rotation?.()).rejects.toThrow(/ERR_ASSERTION|secret|strictly unequal/i);
  });
});

function withLive(change: (live: Release) => Release) {
  return ({ inspect }: PlatformSession) => ({
    async inspect() {
      const live = await inspect();
      return live && change(live);
    },
  });
}

async function setup(canary: boolean) {
  const cwd = mkdtempSync(join(tmpdir(), "svc-contract-"));
  const world = openWorld(join(cwd, "world.json"));
  const served = await serveWorld(world);
  return {
    platform: memoryPlatform({ world, base: served.url, predictable: canary }),
    target: {
      name: "hello",
      environment: "dev",
      serviceName: "hello-dev",
      region: "here-1",
      projectId: undefined,
      port: 8000,
      flags: { minInstances: 0, maxInstances: 1, canary },
      cwd,
    },
    tools: createDeployTools({ cwd }),
    images: ["memory.example/hello@sha256:1", "memory.example/hello@sha256:2"] as const,
    changes: () => world.read().calls.length,
    async close() {
      await served.close();
      rmSync(cwd, { recursive: true, force: true });
    },
  };
}
