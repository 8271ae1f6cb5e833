import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ImageRunner } from "../instances.ts";
import type { FlowCloud, FlowPlatform } from "./clouds.ts";
import type { Logins } from "./container-images.ts";
import { ContainerImages } from "./container-images.ts";
import { logIn } from "./logins.ts";
import { ProcessImages } from "./process-images.ts";
import type { Project } from "./project.ts";
import { User } from "./user.ts";

/** Logins of the registries that the emulators give out. */
export const LOGINS: Logins = {
  "us-central1-docker.pkg.dev": ["oauth2accesstoken", "lab-google-token"],
  "123456789012.dkr.ecr.us-east-1.amazonaws.com": ["AWS", "lab-ecr-password"],
  "registry.digitalocean.com": ["lab-do-token", "lab-do-token"],
};
const MACHINE = new URL("machine.mjs", import.meta.url).href;
const FRONTS = [".run.app", ".ondigitalocean.app", ".awsapprunner.com", ".on.aws"];

/** Images that a user pushed. */
export interface UserImages extends ImageRunner {
  /** Whether the registry still holds them. */
  areKept(): Promise<boolean>;
}

/** A user with a project, logged in to a cloud. */
export interface UserSite extends AsyncDisposable {
  /** What the user calls the service. */
  readonly name: string;
  readonly user: User;
  /** Their home, which is removed in the end. */
  readonly home: string;
  readonly cloud: FlowCloud;
  readonly images: UserImages;
  /** Files with the arguments of the processes that `svc` started, and of those that Docker was called with. */
  readonly started: readonly string[];
  /** What users of the service get. */
  visit(url: string, init?: RequestInit): Promise<Response>;
}

export interface UserSiteOptions {
  /** Images are built, pushed and run by the engine of this machine, else by a stand-in for it. */
  readonly containers: boolean;
  /** Of the cloud, where it has one at a time. */
  readonly region?: string;
  /** Variables of the machines that the stand-in runs images on. */
  readonly machine?: Readonly<Record<string, string>>;
}

export async function openUserSite(
  flow: FlowPlatform,
  project: Project,
  { containers, region, machine }: UserSiteOptions,
): Promise<UserSite> {
  const home = mkdtempSync(join(tmpdir(), "svc-user-"));
  const pushed = join(home, "pushed");
  mkdirSync(pushed);
  const images: UserImages = containers
    ? new ContainerImages(`svc-flow=${project.name}-${flow.name}`, LOGINS)
    : new ProcessImages(
        pushed,
        project.packages,
        machine && { NODE_OPTIONS: `--import=${MACHINE}`, ...machine },
      );
  const name = `${project.name}${flow.suffix ?? ""}`;
  const cloud = await flow.start(images, `${name}-dev`, region);
  const fronts = FRONTS.flatMap((end) => {
    const front = cloud.frontFor(`x${end}`);
    return front === undefined ? [] : [[end, front] as const];
  });
  const { DOCKER_HOST, PATH = "" } = process.env;
  const user = new User(await project.copyTo(home), {
    ...logIn(home, flow.name, cloud),
    HOME: home,
    CI: "1",
    CLOUD_FRONTS: JSON.stringify(fronts),
    PATH: `${new URL(".", import.meta.url).pathname}:${PATH}`,
    STAND_IN_IMAGES: pushed,
    STARTED_PROCESSES: join(home, "started"),
    ...(containers ? { DOCKER_BEHIND: whereIs("docker") } : {}),
    ...(DOCKER_HOST ? { DOCKER_HOST } : {}),
  });
  return {
    name,
    user,
    home,
    cloud,
    images,
    started: [join(home, "started"), join(pushed, "arguments")],
    visit(url, init = {}) {
      const { host, pathname } = new URL(url);
      const headers = new Headers(init.headers);
      headers.set("x-forwarded-host", host);
      return fetch(`${cloud.frontFor(host)}${pathname}`, { ...init, headers });
    },
    async [Symbol.asyncDispose]() {
      await cloud.close();
      await images.close();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function whereIs(command: string): string {
  return execFileSync("sh", ["-c", `command -v ${command}`], { encoding: "utf8" }).trim();
}
