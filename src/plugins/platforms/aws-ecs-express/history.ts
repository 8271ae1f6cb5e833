import type { Release } from "../../../deploy/platform.ts";
import { isDenied } from "../aws/denied.ts";
import { X86 } from "./configuration.ts";
import type { Context } from "./context.ts";
import { releaseOf } from "./release-of.ts";
import type { PrimaryContainer, Service } from "./service-types.ts";
import { findOwnService, listDeployments } from "./services.ts";

/** The parts of a task definition that are read here. */
interface TaskDefinition {
  readonly cpu?: string;
  readonly memory?: string;
  readonly runtimePlatform?: { readonly cpuArchitecture?: string };
  readonly containerDefinitions?: readonly (Pick<PrimaryContainer, "image" | "environment" | "secrets"> & {
    readonly name?: string;
    readonly portMappings?: readonly { readonly containerPort?: number }[];
  })[];
}

interface Revision {
  readonly serviceRevisionArn?: string;
  readonly taskDefinition?: string;
}

/** The container that Express Mode makes of the primary one. */
const MAIN = "Main";
const DESCRIBED = 20;

/**
 * Revisions whose rollout succeeded, newest first; ECS lists deployments of the last 90 days. None where the caller
 * may not read them, which is reported.
 */
export async function revisionHistory(context: Context): Promise<Release[]> {
  try {
    const service = await findOwnService(context);
    return service === undefined ? [] : await revisionsOf(context, service);
  } catch (error) {
    if (!isDenied(error)) throw error;
    context.tools.report(`earlier revisions cannot be read: ${error.message}`);
    return [];
  }
}

async function revisionsOf(context: Context, service: Service): Promise<Release[]> {
  const deployments = await listDeployments(context, { status: ["SUCCESSFUL"] });
  const arns = [...new Set(deployments.flatMap(({ targetServiceRevisionArn: arn }) => arn ?? []))];
  if (arns.length === 0) return [];
  const { serviceRevisions = [] } = await context.aws.read<{ serviceRevisions?: readonly Revision[] }>(
    "ecs",
    "DescribeServiceRevisions",
    { serviceRevisionArns: arns.slice(0, DESCRIBED) },
  );
  const releases: Release[] = [];
  for (const arn of arns) {
    const revision = serviceRevisions.find(({ serviceRevisionArn }) => serviceRevisionArn === arn);
    const release = revision && (await describe(context, service, revision));
    if (release !== undefined) releases.push(release);
  }
  return releases;
}

async function describe(
  { aws }: Context,
  service: Service,
  { serviceRevisionArn, taskDefinition }: Revision,
): Promise<Release | undefined> {
  const found = await aws.find<{ taskDefinition?: TaskDefinition }>(
    "ecs",
    "DescribeTaskDefinition",
    { taskDefinition },
    /^ClientException/,
  );
  const { containerDefinitions = [], cpu, memory, runtimePlatform } = found?.taskDefinition ?? {};
  const main = containerDefinitions.find(({ name }) => name === MAIN);
  const containerPort = main?.portMappings?.[0]?.containerPort;
  if (main?.image === undefined || containerPort === undefined) return undefined;
  const active = service.activeConfigurations?.[0];
  const logs = active?.primaryContainer?.awsLogsConfiguration;
  const { image, environment = [], secrets = [] } = main;
  return releaseOf(service, {
    ...active,
    ...(serviceRevisionArn ? { serviceRevisionArn } : {}),
    ...(cpu ? { cpu } : {}),
    ...(memory ? { memory } : {}),
    cpuArchitecture: runtimePlatform?.cpuArchitecture ?? X86,
    primaryContainer: {
      image,
      containerPort,
      environment,
      secrets,
      ...(logs ? { awsLogsConfiguration: logs } : {}),
    },
  });
}
