import type { Release } from "../../../deploy/platform.ts";
import { sizeText } from "../cloud/size-text.ts";
import { imageConfiguration, plainEnv, type Source, toUnits } from "./configuration.ts";
import type { Context } from "./context.ts";
import { rangeOf, rangeText } from "./scaling.ts";
import type { InstanceConfiguration, Service } from "./service-types.ts";
import { listOperations } from "./services.ts";

const DEPLOYING = ["CREATE_SERVICE", "UPDATE_SERVICE", "START_DEPLOYMENT"];

/**
 * What is serving users now, as a release. App Runner does not number revisions: the id of the operation that
 * deployed it is used instead.
 */
export async function toRelease(context: Context, service: Service): Promise<Release> {
  const operations = await listOperations(context, service.ServiceArn ?? "");
  const last = operations.find(({ Type = "", Status }) => DEPLOYING.includes(Type) && Status === "SUCCEEDED");
  return releaseOf(service, last?.Id);
}

/** What a service runs, as the release of this revision. */
export function releaseOf(service: Service, revision: string | undefined): Release {
  return {
    id: service.ServiceArn ?? "",
    revision,
    image: service.SourceConfiguration?.ImageRepository?.ImageIdentifier,
    url: service.ServiceUrl ? `https://${service.ServiceUrl}` : undefined,
    status: service.Status ?? "UNKNOWN",
    env: plainEnv(service),
    secretNames: Object.keys(imageConfiguration(service).RuntimeEnvironmentSecrets ?? {}),
    resources: {
      ...sizeOf(service.InstanceConfiguration),
      instances: rangeText(rangeOf(service.AutoScalingConfigurationSummary?.AutoScalingConfigurationArn)),
    },
    data: { ...sourceOf(service) },
  };
}

function sizeOf({ Cpu, Memory }: InstanceConfiguration = {}): Release["resources"] {
  if (Cpu === undefined || Memory === undefined) return {};
  return sizeText({ cpus: Number(toUnits(Cpu)) / 1024, gib: Number(toUnits(Memory)) / 1024 });
}

/** What a service was made from. */
export function sourceOf(service: Service): Source {
  const config = imageConfiguration(service);
  return {
    image: service.SourceConfiguration?.ImageRepository?.ImageIdentifier ?? "",
    port: config.Port ?? "",
    env: config.RuntimeEnvironmentVariables ?? {},
    // Names of secrets, never their values.
    secrets: config.RuntimeEnvironmentSecrets ?? {},
  };
}
