import type { Release } from "../../../deploy/platform.ts";
import { instancesText } from "../cloud/instances-text.ts";
import { sizeText } from "../cloud/size-text.ts";
import { plainEnv } from "./configuration.ts";
import type { Configuration, Service } from "./service-types.ts";

/** What is serving users now, as a release. */
export function toRelease(service: Service): Release {
  return releaseOf(service, service.activeConfigurations?.[0]);
}

/** What a service runs with a configuration, as a release. */
export function releaseOf(service: Service, active: Configuration | undefined): Release {
  const container = active?.primaryContainer;
  const { minTaskCount, maxTaskCount } = active?.scalingTarget ?? {};
  return {
    id: service.serviceArn ?? "",
    revision: active?.serviceRevisionArn?.split("/").at(-1),
    image: container?.image,
    url: publicUrl(service),
    status: service.status?.statusCode ?? "UNKNOWN",
    env: plainEnv(container),
    secretNames: (container?.secrets ?? []).map(({ name }) => name),
    secrets: Object.fromEntries((container?.secrets ?? []).map(({ name, valueFrom }) => [name, valueFrom])),
    resources: {
      ...(active?.cpu !== undefined &&
        active.memory !== undefined &&
        sizeText({ cpus: Number(active.cpu) / 1024, gib: Number(active.memory) / 1024 })),
      instances: instancesText(minTaskCount ?? 1, maxTaskCount),
    },
    // References to secrets, by version; never their values.
    data: { container: container ?? null, cpuArchitecture: active?.cpuArchitecture ?? null },
  };
}

/** URL of the service, once ECS reports it. */
export function publicUrl(service: Service): string | undefined {
  const paths = service.activeConfigurations?.[0]?.ingressPaths;
  const endpoint = paths?.find(({ accessType }) => accessType === "PUBLIC")?.endpoint;
  return endpoint === undefined ? undefined : toUrl(endpoint);
}

function toUrl(endpoint: string): string {
  return (endpoint.startsWith("http") ? endpoint : `https://${endpoint}`).replace(/\/$/, "");
}
