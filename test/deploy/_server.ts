import { docker } from "./_local-project.ts";

/** Everything of a service on this machine's engine, which the tests reach over ssh; empty if nothing is left. */
export function allOf(serviceName: string): string[] {
  const list = (...words: string[]) =>
    docker(...words)
      .split("\n")
      .filter(Boolean);
  const name = `name=${serviceName}.`;
  return [
    ...list("ps", "--all", "--format", "container {{.Names}}", "--filter", name),
    ...list("volume", "ls", "--format", "volume {{.Name}}", "--filter", name),
    ...list("network", "ls", "--format", "network {{.Name}}", "--filter", name),
    ...list(
      "image",
      "ls",
      "--format",
      "image {{.Repository}}:{{.Tag}}",
      `agent-control-service/${serviceName}`,
    ),
  ];
}

export function removeAllOf(serviceName: string): void {
  for (const one of allOf(serviceName)) {
    const [kind = "", name = ""] = one.split(" ");
    if (kind === "container") docker("rm", "--force", name);
    else docker(kind, "rm", ...(kind === "network" ? [] : ["--force"]), name);
  }
}
