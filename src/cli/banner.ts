import { join, relative } from "node:path";
import { fieldsOf } from "../core/agents/fields.ts";
import { describeTrust } from "../core/http/clients.ts";
import { VERSION } from "../core/http/service-state.ts";
import type { Service } from "../core/service/service.ts";
import { AGENTS, KEYS, OPTIONS, PLUGINS, SIGN_IN_LINK } from "../core/service/tokens.ts";
import { firstCommand } from "./first-command.ts";

export interface BannerOptions {
  readonly cwd: string;
  /** Whether a person reads the output: a sign-in link must not end up in a log. */
  readonly interactive: boolean;
}

/** What a person needs to know about a service that has just started. */
export async function banner(service: Service, { cwd, interactive }: BannerOptions): Promise<string> {
  const { options } = service;
  const url = options.publicUrl ?? service.url ?? "";
  const plugins = service
    .get(PLUGINS)()
    .map((plugin) => plugin.name);
  const agents = service.get(AGENTS).list();
  const rows = [
    ["service", `${url}${options.apiPrefix}`],
    ...(plugins.includes("admin") ? [["admin", `${url}/admin/`]] : []),
    ...(interactive ? await signInRow(service, url) : []),
    ...(plugins.includes("docs") ? [["API docs", `${url}/docs`]] : []),
    ["API key", whereKeyIs(service, cwd)],
    ["proxies", describeTrust(service.get(OPTIONS).trustProxy)],
    ["data", whereDataIs(service, cwd)],
    ["agents", agents.map((agent) => agent.slug).join(", ")],
  ];
  return [
    `agent-control-service ${VERSION} is running`,
    "",
    ...rows.map(([name, value]) => `  ${name!.padEnd(9)} ${value}`),
    "",
    "From another terminal:",
    "",
    ...agents.map(({ slug, definition }) => {
      const fields = fieldsOf(definition.methods.job_start).list;
      return `  ${firstCommand(slug, { fields, chats: definition.chats === true })}`;
    }),
    "",
    "Press Ctrl-C to stop; unfinished jobs resume at the next start.",
  ].join("\n");
}

/** The URL of a database is a secret. */
function whereDataIs(service: Service, cwd: string): string {
  const options = service.get(OPTIONS);
  if (options.databaseUrl !== undefined) return "Postgres, SERVICE_DATABASE_URL";
  return options.store === undefined ? relative(cwd, options.dataDir) || "." : "the controller's store";
}

/** Only if a plugin provides such links. */
async function signInRow(service: Service, url: string): Promise<string[][]> {
  try {
    const link = await service.get(SIGN_IN_LINK).create(url);
    return [["sign in", `${link.url} (valid once, until ${link.expiresAt.toTimeString().slice(0, 5)})`]];
  } catch {
    return [];
  }
}

function whereKeyIs(service: Service, cwd: string): string {
  if (!service.get(KEYS).apiKeyGenerated) return "as set";
  return `in ${relative(cwd, join(service.options.dataDir, "api-key"))} (commands on this machine read it from there)`;
}
