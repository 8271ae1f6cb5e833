import type { DeployTarget } from "../../../src/deploy/platform.ts";
import { StandInImages } from "../instances.ts";
import { testTools } from "../tools.ts";
import type { AwsEmulator } from "./emulator.ts";
import { startAws } from "./emulator.ts";

const REPOSITORY = "123456789012.dkr.ecr.us-east-1.amazonaws.com/hello-dev";
export const ONE = `${REPOSITORY}@sha256:${"1".repeat(64)}`;
export const TWO = `${REPOSITORY}@sha256:${"2".repeat(64)}`;
export const BROKEN = `${REPOSITORY}@sha256:${"b".repeat(64)}`;

export interface AwsHarness {
  readonly cloud: AwsEmulator;
  readonly said: string[];
  tools(): ReturnType<typeof testTools>;
  target<Flags>(flags: Flags, region?: string): DeployTarget<Flags>;
  close(): Promise<void>;
}

/** An emulated account. */
export async function awsHarness(): Promise<AwsHarness> {
  const images = new StandInImages();
  for (const image of [ONE, TWO]) images.add(image);
  images.add(BROKEN, "crashes");
  const cloud = await startAws(images);
  const said: string[] = [];
  return {
    cloud,
    said,
    tools: () => testTools({ env: cloud.env, frontFor: cloud.frontFor, said }),
    target: (flags, region = "us-east-1") => ({
      name: "hello",
      environment: "dev",
      serviceName: "hello-dev",
      region,
      projectId: undefined,
      port: 8000,
      flags,
      cwd: process.cwd(),
    }),
    async close() {
      await cloud.close();
      await images.close();
    },
  };
}
