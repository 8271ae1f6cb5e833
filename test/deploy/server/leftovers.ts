import { existsSync } from "node:fs";
import { join } from "node:path";
import { docker } from "../_local-project.ts";

/** What else than the wanted release a run has left on the server and in a checkout. */
export function leftovers(
  serviceName: string,
  cwd: string,
  { host = "server", run = docker }: { readonly host?: string; readonly run?: typeof docker } = {},
): string[] {
  const list = (...words: string[]) => run("ps", "--all", "--format", "{{.Names}}", ...words);
  const label = `label=agent-control-service.service=${serviceName}`;
  // Below the platform and its host.
  const journal = join(cwd, `.deployment/state/server/${host}/${serviceName}.journal`);
  return [
    list("--filter", label, "--filter", "name=.new"),
    list("--filter", `name=${serviceName}.lock`) && "the lock",
    existsSync(journal) ? "the journal" : "",
  ].filter(Boolean);
}
