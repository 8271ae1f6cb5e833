import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDeployTools, platformContract } from "agent-control-service/testing";
import { describe, it } from "vitest";
import { memoryPlatform } from "./_memory-platform.ts";
import { openWorld, serveWorld } from "./_world.ts";

for (const canary of [false, true])
  platformContract(`memory, canary ${canary}`, {
    describe,
    it,
    async setup() {
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
        images: ["memory.example/hello@sha256:1", "memory.example/hello@sha256:2"],
        changes: () => world.read().calls.length,
        async close() {
          await served.close();
          rmSync(cwd, { recursive: true, force: true });
        },
      };
    },
  });
