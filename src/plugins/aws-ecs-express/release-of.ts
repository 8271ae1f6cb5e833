import type { Release } from "../../core/deploy/platform.ts";
import { plainEnv } from "./configuration.ts";
import type { Context } from "./context.ts";
import type { Service } from "./service-types.ts";

/** What serves users now, as a release. */
export function toRelease(_context: Context, service: Service): Release {
  const active = service.activeConfigurations?.[0];
  const container = active?.primaryContainer;
  const endpoint = active?.ingressPaths?.find(({ accessType }) => accessType === "PUBLIC")?.endpoint;
  const { minTaskCount, maxTaskCount } = active?.scalingTarget ?? {};
  return {
    id: service.serviceArn ?? "",
    revision: active?.serviceRevisionArn?.split("/").at(-1),
    image: container?.image,
    url: endpoint === undefined ? undefined : toUrl(endpoint),
    status: service.status?.statusCode ?? "UNKNOWN",
    env: plainEnv(container),
    secretNames: (container?.secrets ?? []).map(({ name }) => name),
    resources: {
      cpu: active?.cpu ?? "",
      memory: active?.memory ?? "",
      instances: `${minTaskCount ?? 1}–${maxTaskCount ?? "unset"}`,
    },
    // References to secrets, by version; never their values.
    data: { container: container ?? null },
  };
}

function toUrl(endpoint: string): string {
  return (endpoint.startsWith("http") ? endpoint : `https://${endpoint}`).replace(/\/$/, "");
}
