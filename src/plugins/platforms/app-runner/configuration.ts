import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { ReleaseSpec, SecretRef } from "../../../deploy/platform.ts";
import { keepsRole } from "../aws/job-bucket.ts";
import { roleArn, type WantedRole } from "../aws/roles.ts";
import { parseSecretRef, secretPolicy } from "../aws/secret-policy.ts";
import { accessRole, type Context, instanceRole } from "./context.ts";
import type {
  HealthCheck,
  ImageConfiguration,
  InstanceConfiguration,
  NetworkConfiguration,
  Service,
  SourceConfiguration,
} from "./service-types.ts";

/** Secrets are read when a deployment starts, so a new value must change the deployed configuration. */
const VERSIONS = "SVC_SECRET_VERSIONS";

/** Outgoing requests that go through no VPC. */
const PUBLIC = "public";

/** Everything about a service that a release determines. Networks only where an option names them. */
export interface Configuration {
  readonly SourceConfiguration: SourceConfiguration;
  readonly InstanceConfiguration: InstanceConfiguration;
  readonly HealthCheckConfiguration: HealthCheck;
  readonly NetworkConfiguration?: NetworkConfiguration;
}

export function wantedConfiguration(context: Context, spec: ReleaseSpec, live?: Service): Configuration {
  const network = wantedNetwork(context, live?.NetworkConfiguration);
  const source = {
    image: spec.image,
    port: String(spec.port),
    env: { ...spec.env, ...versionsOf(spec.secrets) },
    secrets: secretArns(spec, live),
  };
  return {
    SourceConfiguration: toSource(wantedAccessRole(context, live), source),
    InstanceConfiguration: {
      Cpu: toUnits(context.target.flags.cpu) ?? live?.InstanceConfiguration?.Cpu ?? "1024",
      Memory: toUnits(context.target.flags.memory) ?? live?.InstanceConfiguration?.Memory ?? "2048",
      InstanceRoleArn: wantedInstanceRole(context, spec, live),
    },
    ...(network === undefined ? {} : { NetworkConfiguration: network }),
    HealthCheckConfiguration:
      live?.HealthCheckConfiguration?.Path === spec.healthPath
        ? live.HealthCheckConfiguration
        : {
            Protocol: "HTTP",
            Path: spec.healthPath,
            Interval: 5,
            Timeout: 4,
            HealthyThreshold: 1,
            UnhealthyThreshold: 12,
          },
  };
}

export interface Source {
  readonly image: string;
  readonly port: string;
  readonly env: Readonly<Record<string, string>>;
  readonly secrets: Readonly<Record<string, string>>;
}

/** The role that fetches images: what was set elsewhere, else the one that svc creates. */
export function wantedAccessRole(context: Context, live: Service | undefined): string {
  const kept = live?.SourceConfiguration?.AuthenticationConfiguration?.AccessRoleArn;
  return kept ?? roleArn(context, accessRole(context).name);
}

/** The roles that this release needs svc to create. */
export function ownRoles(context: Context, spec: ReleaseSpec, live: Service | undefined): WantedRole[] {
  const access = accessRole(context);
  const instance = instanceRole(context, secretPolicy(spec.secrets));
  return [
    ...(wantedAccessRole(context, live) === roleArn(context, access.name) ? [access] : []),
    ...(wantedInstanceRole(context, spec, live) === roleArn(context, instance.name) ? [instance] : []),
  ];
}

/** The role that a service runs with: what an option names, what was set elsewhere, else the one that svc creates. */
export function wantedInstanceRole(
  context: Context,
  spec: Pick<ReleaseSpec, "env">,
  live: Service | undefined,
): string {
  const kept =
    live && keepsRole(spec, plainEnv(live)) ? live.InstanceConfiguration?.InstanceRoleArn : undefined;
  return context.target.flags.instanceRole ?? kept ?? roleArn(context, instanceRole(context).name);
}

/** The role that gets access to a bucket; undefined where the service runs with another than svc's own. */
export function bucketRole(
  context: Context,
  spec: Pick<ReleaseSpec, "env">,
  live: Service | undefined,
): WantedRole | undefined {
  const own = instanceRole(context);
  return wantedInstanceRole(context, spec, live) === roleArn(context, own.name) ? own : undefined;
}

export function toSource(accessRoleArn: string, { image, port, env, secrets }: Source): SourceConfiguration {
  return {
    ImageRepository: {
      ImageIdentifier: image,
      ImageRepositoryType: "ECR",
      ImageConfiguration: {
        Port: port,
        RuntimeEnvironmentVariables: env,
        RuntimeEnvironmentSecrets: secrets,
      },
    },
    AuthenticationConfiguration: { AccessRoleArn: accessRoleArn },
    // If omitted, App Runner would automatically deploy whatever is pushed.
    AutoDeploymentsEnabled: false,
  };
}

/** Whether a service already has the wanted configuration. */
export function isSameConfiguration(live: Service, wanted: Configuration): boolean {
  return (
    isSameSource(live.SourceConfiguration, wanted.SourceConfiguration) &&
    isDeepStrictEqual(instanceOf(live.InstanceConfiguration), instanceOf(wanted.InstanceConfiguration)) &&
    live.HealthCheckConfiguration?.Path === wanted.HealthCheckConfiguration.Path &&
    egressOf(live.NetworkConfiguration) === egressOf(wanted.NetworkConfiguration ?? live.NetworkConfiguration)
  );
}

/** What outgoing requests go through: the connector's full name, or "public". */
export function egressOf(network: NetworkConfiguration | undefined): string {
  return network?.EgressConfiguration?.VpcConnectorArn ?? PUBLIC;
}

export function isSameSource(live: SourceConfiguration | undefined, wanted: SourceConfiguration): boolean {
  return isDeepStrictEqual(sourceParts(live), sourceParts(wanted));
}

export function imageConfiguration(service: Service): ImageConfiguration {
  return service.SourceConfiguration?.ImageRepository?.ImageConfiguration ?? {};
}

export function plainEnv(service: Service): Record<string, string> {
  const { [VERSIONS]: _, ...env } = imageConfiguration(service).RuntimeEnvironmentVariables ?? {};
  return env;
}

/** "1 vCPU" and "2 GB" come back as "1024" and "2048": compared as typed, they would always differ. */
export function toUnits(text: string | undefined): string | undefined {
  const match = /^([\d.]+) (vCPU|GB)$/.exec(text ?? "");
  return match?.[1] === undefined ? text : String(Number(match[1]) * 1024);
}

/** An update replaces the whole network, so that the rest is sent as it is. */
function wantedNetwork(
  { target }: Context,
  live: NetworkConfiguration = {},
): NetworkConfiguration | undefined {
  const connector = target.flags.vpcConnector;
  if (connector === undefined) return undefined;
  const egress =
    connector === PUBLIC ? { EgressType: "DEFAULT" } : { EgressType: "VPC", VpcConnectorArn: connector };
  return { ...live, EgressConfiguration: egress };
}

function sourceParts(source: SourceConfiguration | undefined) {
  const { ImageIdentifier, ImageConfiguration: config = {} } = source?.ImageRepository ?? {};
  return {
    image: ImageIdentifier,
    port: config.Port,
    env: config.RuntimeEnvironmentVariables ?? {},
    secrets: config.RuntimeEnvironmentSecrets ?? {},
    role: source?.AuthenticationConfiguration?.AccessRoleArn,
    auto: source?.AutoDeploymentsEnabled,
  };
}

function instanceOf(config: InstanceConfiguration = {}) {
  return { cpu: toUnits(config.Cpu), memory: toUnits(config.Memory), role: config.InstanceRoleArn };
}

function secretArns(spec: ReleaseSpec, live: Service | undefined): Record<string, string> {
  const known = live === undefined ? {} : (imageConfiguration(live).RuntimeEnvironmentSecrets ?? {});
  const arns: Record<string, string> = {};
  for (const [name, ref] of Object.entries(spec.secrets))
    arns[name] = ref ? parseSecretRef(ref.ref).arn : (known[name] ?? `planned:${name}`);
  return arns;
}

/** The versions of its secrets that a service was deployed with, as a hash: its references name none. */
export function liveVersions(service: Service): string | undefined {
  return imageConfiguration(service).RuntimeEnvironmentVariables?.[VERSIONS];
}

/** The versions of the secrets of a spec, as a hash; undefined while one of them is not stored. */
export function wantedVersions({ secrets }: Pick<ReleaseSpec, "secrets">): string | undefined {
  const isStored = Object.values(secrets).every((ref) => ref !== undefined);
  return isStored ? versionsOf(secrets)[VERSIONS] : undefined;
}

function versionsOf(secrets: Readonly<Record<string, SecretRef | undefined>>): Record<string, string> {
  const versions = Object.entries(secrets)
    .map(([name, ref]) => `${name}=${ref?.ref ?? ""}`)
    .sort();
  if (versions.length === 0) return {};
  return { [VERSIONS]: createHash("sha256").update(versions.join("\n")).digest("hex").slice(0, 16) };
}
