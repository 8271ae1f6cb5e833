import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Deployment } from "../../../src/deploy/deployment.ts";
import { openDeployment } from "../../../src/deploy/deployment.ts";
import type { DeployEvent } from "../../../src/deploy/events.ts";
import type { DeployOptions } from "../../../src/deploy/options.ts";
import type { ImageRunner } from "../instances.ts";
import { frontFetch } from "../tools.ts";
import { quickClock } from "./clock.ts";
import type { FlowCloud, FlowPlatform } from "./clouds.ts";
import { PushedImages } from "./pushed-images.ts";

/** A project, a cloud to deploy it to, and a stand-in for Docker. */
export interface Site {
  readonly cwd: string;
  readonly cloud: FlowCloud;
  readonly images: ImageRunner;
  readonly env: Readonly<Record<string, string>>;
  readonly events: DeployEvent[];
  write(file: string, text: string): void;
  /** Opens the deployment of the project, or of another checkout of it. */
  open(
    options?: Partial<DeployOptions>,
    env?: Readonly<Record<string, string>>,
    folder?: string,
    command?: string,
  ): Promise<Deployment>;
  close(): Promise<void>;
}

/** What runs the images: a service in this process where it is `real`, a small server, or what is given. */
export interface SiteOptions {
  readonly real?: boolean;
  readonly images?: (pushed: string) => ImageRunner;
}

export async function openSite(flow: FlowPlatform, options: SiteOptions): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), "svc-cloud-"));
  const cwd = join(folder, "hello");
  const pushed = join(folder, "pushed");
  mkdirSync(pushed, { recursive: true });
  const images = options.images?.(pushed) ?? new PushedImages(pushed, { real: options.real === true });
  const cloud = await flow.start(images);
  const events: DeployEvent[] = [];
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(cwd, file)), { recursive: true });
    writeFileSync(join(cwd, file), text);
  };
  write("package.json", JSON.stringify({ name: "hello", type: "module" }));
  write("src/controller.ts", "export default {};\n");
  const env = {
    ...cloud.env,
    HOME: folder,
    PATH: `${new URL(".", import.meta.url).pathname}:${process.env.PATH}`,
    STAND_IN_IMAGES: pushed,
  };
  return {
    cwd,
    cloud,
    images,
    env,
    events,
    write,
    open: (some = {}, more = {}, checkout = cwd, command = "svc deploy") =>
      openDeployment({
        platform: flow.platform,
        options: { name: "hello", projectId: flow.projectId, ...some },
        flags: {},
        cwd: checkout,
        // Without a key that somebody knows, nothing is deployed to a disk that does not last.
        env: { SERVICE_API_KEY: "key-of-the-site-0123456789", ...env, ...more },
        command,
        emit: (event) => events.push(event),
        fetch: frontFetch(cloud.frontFor),
        ...quickClock(),
        polling: { firstWait: 1, interval: 1, timeout: 3 },
      }),
    async close() {
      await cloud.close();
      await images.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
