import { relative } from "node:path";
import type { AgentRegistry } from "../agents/registry.ts";
import type { Service } from "../service.ts";
import { VERSION } from "../service-state.ts";
import { AGENTS, KEYS, PLUGINS } from "../tokens.ts";

/** What a person wants to know of a service that has just started. */
export function banner(service: Service, cwd: string): string {
  const { options } = service;
  const url = options.publicUrl ?? service.url ?? "";
  const plugins = service
    .get(PLUGINS)()
    .map((plugin) => plugin.name);
  const agents = service.get(AGENTS).list();
  const rows = [
    ["service", `${url}${options.apiPrefix}`],
    ...(plugins.includes("admin") ? [["admin", `${url}/admin/`]] : []),
    ["API docs", `${url}/docs`],
    ["API key", whereKeyIs(service, cwd)],
    ["data", relative(cwd, options.dataDir) || "."],
    ["agents", agents.map((agent) => agent.slug).join(", ")],
  ];
  return [
    `agent-control-service ${VERSION} is running`,
    "",
    ...rows.map(([name, value]) => `  ${name!.padEnd(9)} ${value}`),
    "",
    "Start a job from another terminal:",
    "",
    ...startCommands(service.get(AGENTS)),
    "",
    "Ctrl-C ends it; unfinished jobs go on at the next start.",
  ].join("\n");
}

function whereKeyIs(service: Service, cwd: string): string {
  if (!service.get(KEYS).apiKeyGenerated) return "as set";
  return `in ${relative(cwd, service.options.dataDir)}/api-key (commands on this machine find it)`;
}

function startCommands(registry: AgentRegistry): string[] {
  return registry.list().map(({ slug }) => `  npx svc job start ${slug} --wait`);
}
