import { homedir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { readIfThereSync } from "../../../core/base/read-if-there.ts";
import { DeployError } from "../../../deploy/errors.ts";
import type { Sourced } from "../../../deploy/platform.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** The token of the account: from a variable, else from doctl's login. */
export function findToken(env: Env): Sourced {
  for (const name of ["DIGITALOCEAN_ACCESS_TOKEN", "DIGITALOCEAN_TOKEN"]) {
    const value = env[name];
    if (value) return { value, source: name };
  }
  const found = fromDoctl(env);
  if (found) return found;
  throw new DeployError("preflight", "No DigitalOcean token was found", {
    fix: "Log in with: doctl auth init (or set DIGITALOCEAN_ACCESS_TOKEN)",
  });
}

function fromDoctl(env: Env): Sourced | undefined {
  for (const path of doctlFiles(env)) {
    const config = readYaml(path);
    if (config === undefined) continue;
    const name = env.DIGITALOCEAN_CONTEXT ?? textOf(config.context) ?? "default";
    const contexts = config["auth-contexts"] as Record<string, unknown> | undefined;
    const value =
      textOf(contexts?.[name]) ?? (name === "default" ? textOf(config["access-token"]) : undefined);
    if (value) return { value, source: `context "${name}" in ${path}` };
  }
  return undefined;
}

function doctlFiles(env: Env): string[] {
  const home = env.HOME ?? homedir();
  return [
    join(env.XDG_CONFIG_HOME ?? join(home, ".config"), "doctl", "config.yaml"),
    join(home, "Library", "Application Support", "doctl", "config.yaml"),
  ];
}

function readYaml(path: string): Record<string, unknown> | undefined {
  const text = readIfThereSync(path);
  return text === undefined ? undefined : ((parse(text) ?? {}) as Record<string, unknown>);
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
