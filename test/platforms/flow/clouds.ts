import type { Platform } from "../../../src/deploy/platform.ts";
import appRunner from "../../../src/plugins/platforms/app-runner/platform.ts";
import ecsExpress from "../../../src/plugins/platforms/aws-ecs-express/platform.ts";
import cloudRun from "../../../src/plugins/platforms/cloud-run/platform.ts";
import appPlatform from "../../../src/plugins/platforms/do-app-platform/platform.ts";
import { startAws } from "../aws/emulator.ts";
import { startDigitalOcean } from "../digitalocean/emulator.ts";
import { startGoogle } from "../google/emulator.ts";
import type { ImageRunner } from "../instances.ts";
import type { CloudState } from "../killed/world.ts";
import type { Recorder } from "../recorder.ts";

/** A cloud to deploy to, with what the tests ask about it. */
export interface FlowCloud {
  readonly recorder: Recorder;
  readonly state: CloudState;
  readonly env: Readonly<Record<string, string>>;
  frontFor(host: string): string | undefined;
  /** Rollouts so far. */
  rollouts(): number;
  /** All that the cloud keeps of how the service runs. */
  settings(): unknown;
  /** Labels of the service; undefined where services have none. */
  labels(): Record<string, string> | undefined;
  /** Things of the same account that are not this service's; there after a removal as before. */
  plant(): void;
  foreign(): number;
  close(): Promise<void>;
}

export interface FlowPlatform {
  readonly name: string;
  readonly platform: Platform<never>;
  readonly projectId?: string;
  /** The cloud goes back by itself where a revision does not start, whatever it is asked. */
  readonly rollsBackItself?: boolean;
  /** Added to the name of a project: clouds that share a registry would take each other's images for their own. */
  readonly suffix?: string;
  /** A cloud for the one service of this name; of AWS, the region. */
  start(images: ImageRunner, serviceName?: string, region?: string): Promise<FlowCloud>;
}

export const FLOWS: readonly FlowPlatform[] = [
  {
    name: "cloud-run",
    platform: cloudRun as Platform<never>,
    projectId: "demo-project",
    async start(images, serviceName = "hello-dev") {
      const cloud = await startGoogle({ images, apis: [] });
      const { services, secrets, repositories } = cloud.state;
      return {
        ...cloud,
        rollouts: () => services.get(serviceName)?.revisions.length ?? 0,
        settings() {
          const { resource, policy } = services.get(serviceName)!;
          const { template, ingress, scaling, labels, invokerIamDisabled } = resource;
          return { template, ingress, scaling, labels, invokerIamDisabled, access: policy.bindings };
        },
        labels: () => services.get(serviceName)?.resource.labels as Record<string, string>,
        plant: () =>
          void secrets.set(`${serviceName}-FOREIGN`, {
            resource: { name: `projects/1/secrets/${serviceName}-FOREIGN`, labels: {} },
            versions: [],
            policy: { etag: "x", bindings: [] },
          }),
        foreign: () => (secrets.has(`${serviceName}-FOREIGN`) ? 1 : 0) + repositories.size,
      };
    },
  },
  {
    name: "do-app-platform",
    platform: appPlatform as Platform<never>,
    async start(images, serviceName = "hello-dev") {
      const cloud = await startDigitalOcean(images);
      const { apps, registries } = cloud.state;
      const own = () => [...apps.values()].filter(({ spec }) => spec.name === serviceName);
      return {
        ...cloud,
        rollouts: () => own()[0]?.deployments.length ?? 0,
        settings: () => own()[0]?.spec,
        labels: () => undefined,
        plant: () =>
          void apps.set("other", {
            id: "other",
            spec: { name: "other" },
            deployments: [],
            active: undefined,
            pinned: false,
          }),
        foreign: () => (apps.has("other") ? 1 : 0) + registries.length,
      };
    },
  },
  {
    name: "aws-app-runner",
    platform: appRunner as Platform<never>,
    rollsBackItself: true,
    start: (images, _, region) => aws(images, region),
  },
  {
    name: "aws-ecs-express",
    platform: ecsExpress as Platform<never>,
    rollsBackItself: true,
    suffix: "-ecs",
    start: (images, _, region) => aws(images, region),
  },
];

async function aws(images: ImageRunner, region?: string): Promise<FlowCloud> {
  const cloud = await startAws(images, region);
  const { repositories, roles, services, express } = cloud.state;
  const live = () => services.filter(({ status }) => status !== "DELETED");
  return {
    ...cloud,
    rollouts: () => (live()[0]?.operations.length ?? 0) + ([...express.values()][0]?.deployments.length ?? 0),
    settings() {
      const { serviceRevisionArn: _, ...target } = { ...[...express.values()][0]?.deployments[0]?.target };
      return live()[0]?.config ?? target;
    },
    labels: () => ({
      ...Object.fromEntries(live()[0]?.tags.map(({ Key, Value }) => [Key, Value]) ?? []),
      ...Object.fromEntries([...express.values()][0]?.tags.map(({ key, value }) => [key, value]) ?? []),
    }),
    plant: () =>
      void roles.set("other", {
        name: "other",
        arn: "arn:aws:iam::123456789012:role/other",
        principal: "x",
        tags: [],
        attached: new Set(),
        inline: new Map(),
        notReady: 0,
      }),
    foreign: () => (roles.has("other") ? 1 : 0) + repositories.size,
  };
}
