import type { Journal } from "../../../src/deploy/journal.ts";
import type {
  DeployTarget,
  PlatformSession,
  ReleaseSpec,
  SecretValue,
} from "../../../src/deploy/platform.ts";
import type { DeployTools } from "../../../src/deploy/tools.ts";
import type { CloudRunFlags } from "../../../src/plugins/platforms/cloud-run/flags.ts";
import cloudRunPlatform from "../../../src/plugins/platforms/cloud-run/platform.ts";
import { StandInImages } from "../instances.ts";
import { testTools } from "../tools.ts";
import type { GoogleEmulator } from "./emulator.ts";
import { startGoogle } from "./emulator.ts";

export const DIGEST_ONE = `sha256:${"1".repeat(64)}`;
export const DIGEST_TWO = `sha256:${"2".repeat(64)}`;
const REPOSITORY = "us-central1-docker.pkg.dev/demo-project/agent-services/hello-dev";
export const ONE = `${REPOSITORY}@${DIGEST_ONE}`;
export const TWO = `${REPOSITORY}@${DIGEST_TWO}`;
export const BROKEN = `${REPOSITORY}@sha256:${"b".repeat(64)}`;

export interface CloudRunHarness {
  readonly emulator: GoogleEmulator;
  readonly images: StandInImages;
  readonly said: string[];
  tools(journal?: Journal): DeployTools;
  target(flags?: CloudRunFlags): DeployTarget<CloudRunFlags>;
  connect(flags?: CloudRunFlags, journal?: Journal): Promise<PlatformSession>;
  close(): Promise<void>;
}

/** An emulated project and sessions on it. */
export async function cloudRunHarness(options: { apis?: readonly string[] } = {}): Promise<CloudRunHarness> {
  const images = new StandInImages();
  images.add(ONE);
  images.add(TWO);
  images.add(BROKEN, "crashes");
  const emulator = await startGoogle({ images, ...options });
  const said: string[] = [];
  const tools = (journal?: Journal) =>
    testTools({ env: emulator.env, frontFor: emulator.frontFor, said, ...(journal ? { journal } : {}) });
  const target = (flags: CloudRunFlags = {}): DeployTarget<CloudRunFlags> => ({
    name: "hello",
    environment: "dev",
    serviceName: "hello-dev",
    region: "us-central1",
    projectId: "demo-project",
    port: 8000,
    flags,
    cwd: process.cwd(),
  });
  return {
    emulator,
    images,
    said,
    tools,
    target,
    connect: async (flags, journal) => cloudRunPlatform.connect(target(flags), tools(journal)),
    async close() {
      await emulator.close();
      await images.close();
    },
  };
}

export function specOf(image: string, more: Partial<ReleaseSpec> = {}): ReleaseSpec {
  return {
    image,
    imageTag: "one",
    port: 8000,
    env: { GREETING: "hello" },
    secrets: {},
    secretHashes: {},
    publicUrl: undefined,
    healthPath: "/.well-known/health",
    ...more,
  };
}

export function secret(value: string): SecretValue {
  return { value, hash: `hash-of-${value.length}-${value.at(-1)}` };
}

/** A release brought to its users. */
export async function deploy(session: PlatformSession, spec: ReleaseSpec) {
  const release = await session.release(spec);
  return release.noTraffic ? session.promote?.(release) : release;
}
