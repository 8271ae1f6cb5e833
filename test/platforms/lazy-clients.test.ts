// @alone
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { buildPackage } from "../_built.ts";
import { loadedModules, TRACED } from "../_loader.ts";
import { startAws } from "./aws/emulator.ts";
import { startDigitalOcean } from "./digitalocean/emulator.ts";
import { startGoogle } from "./google/emulator.ts";
import { StandInImages } from "./instances.ts";

const run = promisify(execFile);

/** Packages and folders that each platform may load; no other cloud's is among them. */
const OWN: Readonly<Record<string, RegExp>> = {
  "cloud-run": /^platforms\/cloud-run$/,
  "do-app-platform": /^platforms\/do-app-platform$/,
  "aws-app-runner": /^(platforms\/app-runner|@aws-sdk\/client-(apprunner|ecr|secrets-manager|sts))$/,
  "aws-ecs-express": /^(platforms\/aws-ecs-express|@aws-sdk\/client-(ecs|ecr|secrets-manager|sts))$/,
};

it("a deployment to one platform loads no other platform's client", { timeout: 240_000 }, async () => {
  await using built = await buildPackage();
  await writeFile(join(built.folder, "traced.mjs"), TRACED);
  const images = new StandInImages();
  const clouds = [await startGoogle({ images }), await startAws(images), await startDigitalOcean(images)];
  const env = Object.assign(
    { PATH: process.env.PATH },
    ...clouds.map((cloud) => cloud.env),
  ) as NodeJS.ProcessEnv;

  try {
    for (const [platform, own] of Object.entries(OWN)) {
      const TRACE = join(built.folder, `${platform}.txt`);
      const command = ["--import", "./traced.mjs", "dist/cli.js", "deploy", "status", "--name", "hello"];
      const project = platform === "cloud-run" ? ["--project-id", "demo-project"] : [];
      const ended = run(process.execPath, [...command, "--platform", platform, ...project], {
        cwd: built.folder,
        env: { ...env, HOME: built.folder, TRACE },
      });
      await expect(ended).rejects.toMatchObject({ stderr: expect.stringContaining("is not deployed on") });
      const { packages, modules } = await loadedModules(TRACE);
      const clients = [
        ...packages.filter((name) => /^@aws-sdk\/client-|^google-auth-library$/.test(name)),
        ...modules.flatMap((name) => /^plugins\/(platforms\/[^/]+)\/platform\.ts$/.exec(name)?.[1] ?? []),
      ];
      expect(clients.length).toBeGreaterThan(0);
      expect(clients.filter((client) => !own.test(client))).toEqual([]);
    }
  } finally {
    await Promise.all(clouds.map((cloud) => cloud.close()));
    await images.close();
  }
});
