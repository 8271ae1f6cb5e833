import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { buildPackage } from "../_built.ts";
import { LOADER } from "../_loader.ts";
import { startAws } from "./aws/emulator.ts";
import { startDigitalOcean } from "./digitalocean/emulator.ts";
import { startGoogle } from "./google/emulator.ts";
import { StandInImages } from "./instances.ts";

const run = promisify(execFile);

const PROGRAM = `
import { register } from "node:module";
register(new URL("./loader.mjs", import.meta.url));
const folders = ["cloud-run", "app-runner", "do-app-platform", "aws-ecs-express"];
const plugins = await Promise.all(folders.map((name) => import("./dist/platforms/" + name + "/index.js")));
const loaders = Object.assign({}, ...plugins.flatMap(Object.values).map((plugin) => plugin.platforms));
const { createDeployTools } = await import("./dist/deploy/create-tools.js");
const platform = (await loaders[process.env.PLATFORM]()).default;
const tools = createDeployTools({ cwd: process.cwd() });
const target = { name: "hello", environment: "dev", serviceName: "hello-dev", region: platform.defaultRegion, projectId: "demo-project", port: 8000, flags: {}, cwd: process.cwd() };
const session = await platform.connect(target, tools);
await session.preflight();
await session.inspect();
await session.close?.();
process.exit(0);
`;

/** Packages and folders that each platform may load; no other cloud's is among them. */
const OWN: Readonly<Record<string, RegExp>> = {
  "cloud-run": /^platforms\/cloud-run$/,
  "do-app-platform": /^platforms\/do-app-platform$/,
  "aws-app-runner": /^(platforms\/app-runner|@aws-sdk\/client-(apprunner|iam|sts))$/,
  "aws-ecs-express": /^(platforms\/aws-ecs-express|@aws-sdk\/client-(ecs|iam|sts))$/,
};

it("a deployment to one platform loads no other platform's client", { timeout: 240_000 }, async () => {
  await using built = await buildPackage();
  await writeFile(join(built.folder, "loader.mjs"), LOADER);
  await writeFile(join(built.folder, "program.mjs"), PROGRAM);
  const images = new StandInImages();
  const clouds = [await startGoogle({ images }), await startAws(images), await startDigitalOcean(images)];
  const env = Object.assign(
    { PATH: process.env.PATH },
    ...clouds.map((cloud) => cloud.env),
  ) as NodeJS.ProcessEnv;

  try {
    for (const [platform, own] of Object.entries(OWN)) {
      const TRACE = join(built.folder, `${platform}.txt`);
      await run(process.execPath, ["program.mjs"], {
        cwd: built.folder,
        env: { ...env, HOME: built.folder, PLATFORM: platform, TRACE },
      });
      const loaded = (await readFile(TRACE, "utf8")).split("\n");
      const clients = loaded.flatMap(
        (url) =>
          /node_modules\/(@aws-sdk\/client-[^/]+|google-auth-library)\//.exec(url)?.[1] ??
          /dist\/(platforms\/[^/]+)\/platform\.js$/.exec(url)?.[1] ??
          [],
      );
      expect(clients.length).toBeGreaterThan(0);
      expect([...new Set(clients)].filter((client) => !own.test(client))).toEqual([]);
    }
  } finally {
    await Promise.all(clouds.map((cloud) => cloud.close()));
    await images.close();
  }
});
