import type { Platform } from "../../../deploy/platform.ts";
import { type CloudRunFlags, CloudRunFlagsSchema } from "./flags.ts";
import { googleDefaults } from "./gcloud-config.ts";
import { pipelineLogin } from "./pipeline.ts";
import { openSession } from "./session.ts";

const LONGEST_NAME = 49;

const cloudRunPlatform: Platform<CloudRunFlags> = {
  name: "cloud-run",
  defaultRegion: "us-central1",
  flags: CloudRunFlagsSchema,
  ephemeralDisk: true,
  // Jobs run between requests too: instances are billed as long as they exist.
  withDatabase: { maxInstances: 3, concurrency: 80, alwaysOnCpu: true },
  proxies: 1,
  timeout: 300,
  checkName: (name) =>
    name.length > LONGEST_NAME
      ? `Cloud Run takes at most ${LONGEST_NAME} characters, this one has ${name.length}`
      : undefined,
  checkLabel: (name, value) =>
    /^[a-z][a-z0-9_-]{0,62}$/.test(name) && /^[a-z0-9_-]{0,63}$/.test(value)
      ? undefined
      : "names and values on Google Cloud are lower-case letters, digits, _ and -, at most 63, a name begins with a letter",
  defaults: googleDefaults,
  pipeline: pipelineLogin,
  connect: openSession,
};
export default cloudRunPlatform;
