import type { ServerRecord } from "./record.ts";
import { SECRETS_DIR } from "./secrets.ts";

/** Arguments of Docker for a container of a release: what it may do, its variables and its secrets. */
export function confinedWords({ port, domain, memory, cpus, env, secrets }: ServerRecord): string[] {
  const variables = {
    SERVICE_PORT: String(port),
    ...(domain === undefined ? {} : { SERVICE_TRUST_PROXY: "1" }),
    ...env,
    SERVICE_SECRETS_DIR: SECRETS_DIR,
  };
  return [
    ...["--init", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"],
    ...["--security-opt", "no-new-privileges", "--pids-limit", "4096"],
    ...(memory === undefined ? [] : ["--memory", memory]),
    ...(cpus === undefined ? [] : ["--cpus", cpus]),
    ...Object.values(secrets).flatMap((ref) => ["--volume", `${ref}:${SECRETS_DIR}/${ref}:ro`]),
    ...Object.entries(variables).flatMap(([key, value]) => ["--env", `${key}=${value}`]),
  ];
}
