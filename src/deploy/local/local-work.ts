import { readIfThere } from "../../core/base/read-if-there.ts";
import { askOpenWork, type OpenWork } from "../open-work.ts";
import type { LocalRun } from "./local-run.ts";
import { secretFile } from "./local-secrets.ts";

/** Asks the service of a local test for its open jobs; undefined if there are neither containers nor data. */
export async function localWork(run: LocalRun): Promise<OpenWork | undefined> {
  const { tools, project, config } = run;
  const filter = ["--filter", `label=com.docker.compose.project=${project}`];
  const read = async (...args: readonly string[]) => {
    const { code, stdout } = await tools.exec("docker", args);
    return code === 0 ? stdout.trim() : "";
  };
  const volumes = await read("volume", "ls", "--quiet", ...filter);
  if (volumes === "") return undefined;
  const running = (await read("ps", "--quiet", ...filter)).split(/\s+/);
  const [container] = running;
  if (!container) return { known: false, reason: "its container is not running, but its data exists" };
  const ports = "{{range .NetworkSettings.Ports}}{{range .}}{{.HostPort}} {{end}}{{end}}";
  const [port] = (await read("inspect", "--format", ports, ...running)).split(/\s+/);
  return askOpenWork({
    tools,
    url: port ? `http://127.0.0.1:${port}` : undefined,
    prefix: config.environment.SERVICE_API_PREFIX,
    keys: [
      () => tools.env.SERVICE_API_KEY,
      () => config.secrets.find(({ name }) => name === "SERVICE_API_KEY")?.value,
      () => readIfThere(secretFile(run, "SERVICE_API_KEY")),
      // The key that a service without a configured key generated for itself.
      () => read("exec", container, "cat", "/data/api-key"),
    ],
  });
}
