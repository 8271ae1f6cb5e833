import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import type { Deployment, OpenOptions } from "../../src/deploy/deployment.ts";
import { openDeployment } from "../../src/deploy/deployment.ts";
import type { DeployEvent } from "../../src/deploy/events.ts";
import { DEFAULT_OPTIONS } from "../../src/deploy/options.ts";
import type { MemoryOptions } from "./_memory-platform.ts";
import { memoryPlatform } from "./_memory-platform.ts";
import type { WorldFile } from "./_world.ts";
import { openWorld, serveWorld } from "./_world.ts";

/** A folder with the given files, removed when the test is over. */
export function temporaryProject(files: Record<string, string> = PROJECT): string {
  const cwd = mkdtempSync(join(tmpdir(), "svc-deploy-"));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  writeAll(cwd, files);
  return cwd;
}

export function writeAll(cwd: string, files: Record<string, string>): void {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(cwd, file)), { recursive: true });
    writeFileSync(join(cwd, file), text);
  }
}

export const PROJECT: Record<string, string> = {
  "package.json": JSON.stringify({ name: "hello", type: "module" }),
  "src/controller.ts": "export default {};\n",
};

export interface Stage {
  readonly cwd: string;
  readonly world: WorldFile;
  readonly base: string;
  readonly events: DeployEvent[];
  readonly platform: ReturnType<typeof memoryPlatform>;
  /** Opens a deployment on the memory platform; closed when the test is over. */
  open(options?: Partial<OpenOptions["options"]>, rest?: Partial<OpenOptions>): Promise<Deployment>;
}

/** A project and a world to deploy it to. */
export async function stage(options: Partial<MemoryOptions> = {}): Promise<Stage> {
  const cwd = temporaryProject();
  const outside = mkdtempSync(join(tmpdir(), "svc-world-"));
  const world = openWorld(join(outside, "world.json"));
  const served = await serveWorld(world);
  onTestFinished(async () => {
    await served.close();
    rmSync(outside, { recursive: true, force: true });
  });
  const events: DeployEvent[] = [];
  const platform = memoryPlatform({ world, base: served.url, ...options });
  return {
    cwd,
    world,
    base: served.url,
    events,
    platform,
    async open(some = {}, rest = {}) {
      const deployment = await openDeployment({
        platform: platform as never,
        options: { ...DEFAULT_OPTIONS, name: "hello", ...some },
        flags: {},
        cwd,
        env: { PATH: process.env.PATH },
        command: "svc deploy up",
        emit: (event) => events.push(event),
        polling: { firstWait: 0.2, interval: 0.05, timeout: 0.4 },
        ...rest,
      });
      onTestFinished(() => deployment.close());
      return deployment;
    },
  };
}

/** All text under a folder except for some files, to search for what must not be there. */
export function allText(folder: string, without: readonly string[] = []): string {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((file) => join(folder, file))
    .filter((file) => statSync(file).isFile() && !without.includes(basename(file)))
    .map((file) => `${file}\n${readFileSync(file, "utf8")}`)
    .join("\n");
}
