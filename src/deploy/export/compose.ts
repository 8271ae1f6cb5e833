import { stringify } from "yaml";
import { storeOf, usesFolder } from "../job-store.ts";
import type { ReleaseSpec } from "../platform.ts";

/** A compose file that runs a release as `svc deploy` does: secrets are variables of compose's own environment. */
export function composeFile(
  { image, port, env, secrets }: Pick<ReleaseSpec, "image" | "port" | "env" | "secrets">,
  limits: {
    readonly memory?: string | undefined;
    readonly cpus?: string | undefined;
    readonly labels?: Readonly<Record<string, string>>;
  } = {},
): string {
  const secretNames = Object.keys(secrets);
  const hasFiles = usesFolder(storeOf({ env, secretNames }));
  const environment = {
    ...escaped(env),
    ...Object.fromEntries(secretNames.map((name) => [name, `\${${name}:?is missing}`])),
  };
  return stringify({
    services: {
      service: {
        image,
        init: true,
        restart: "unless-stopped",
        stop_grace_period: "30s",
        read_only: true,
        tmpfs: ["/tmp"],
        cap_drop: ["ALL"],
        security_opt: ["no-new-privileges:true"],
        ...(limits.memory === undefined ? {} : { mem_limit: limits.memory }),
        ...(limits.cpus === undefined ? {} : { cpus: Number(limits.cpus) }),
        ...(limits.labels === undefined ? {} : { labels: escaped(limits.labels) }),
        ports: [`${port}:${port}`],
        environment,
        ...(hasFiles ? { volumes: ["data:/data"] } : {}),
      },
    },
    ...(hasFiles ? { volumes: { data: {} } } : {}),
  });
}

/** Compose would replace what follows a single $. */
function escaped(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, text.replaceAll("$", "$$$$")]),
  );
}
