import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { readIfThereSync } from "../../../core/base/read-if-there.ts";
import type { PlatformDefaults, Sourced } from "../../../deploy/platform.ts";

export type Env = Readonly<Record<string, string | undefined>>;

/** Settings of gcloud by `section/key`. Read from its files, because starting gcloud takes half a second and more. */
export interface GcloudConfig {
  readonly path: string;
  readonly values: Readonly<Record<string, string>>;
}

/** Folder in which gcloud keeps its settings. */
function gcloudFolder(env: Env): string {
  if (env.CLOUDSDK_CONFIG) return env.CLOUDSDK_CONFIG;
  if (env.APPDATA && process.platform === "win32") return join(env.APPDATA, "gcloud");
  return join(env.HOME ?? homedir(), ".config", "gcloud");
}

/** The active configuration of gcloud; empty if there is none. */
export function readGcloudConfig(env: Env): GcloudConfig {
  const folder = gcloudFolder(env);
  const name =
    env.CLOUDSDK_ACTIVE_CONFIG_NAME ?? (readIfThereSync(join(folder, "active_config"))?.trim() || "default");
  const path = join(folder, "configurations", `config_${name}`);
  return { path, values: parseIni(readIfThereSync(path) ?? "") };
}

/** File of the application default credentials, if there is one. */
export function credentialsFile(env: Env): Sourced | undefined {
  const named = env.GOOGLE_APPLICATION_CREDENTIALS;
  if (named) return { value: named, source: "GOOGLE_APPLICATION_CREDENTIALS" };
  const path = join(gcloudFolder(env), "application_default_credentials.json");
  return existsSync(path) ? { value: path, source: path } : undefined;
}

/** Project and region as Google's own tools resolve them. */
export function googleDefaults(env: Env): PlatformDefaults {
  const config = readGcloudConfig(env);
  const fromConfig = (key: string): Sourced | undefined =>
    config.values[key] === undefined
      ? undefined
      : { value: config.values[key], source: `${key} in ${config.path}` };
  return {
    projectId:
      fromEnv(env, "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT") ??
      fromConfig("core/project") ??
      projectOfKey(env),
    region:
      fromEnv(env, "CLOUDSDK_RUN_REGION") ??
      fromConfig("run/region") ??
      fromEnv(env, "CLOUDSDK_COMPUTE_REGION") ??
      fromConfig("compute/region"),
  };
}

function fromEnv(env: Env, ...names: readonly string[]): Sourced | undefined {
  const name = names.find((candidate) => env[candidate]);
  return name === undefined ? undefined : { value: env[name] ?? "", source: name };
}

function projectOfKey(env: Env): Sourced | undefined {
  const file = credentialsFile(env);
  const text = file && readIfThereSync(file.value);
  if (!file || !text) return undefined;
  try {
    const key = JSON.parse(text) as { project_id?: string; quota_project_id?: string };
    const project = key.project_id ?? key.quota_project_id;
    return project ? { value: project, source: file.source } : undefined;
  } catch {
    // A file that is not JSON is reported where the credentials are used.
    return undefined;
  }
}

function parseIni(text: string): Record<string, string> {
  const values: Record<string, string> = {};
  let section = "";
  for (const line of text.split(/\r?\n/)) {
    const heading = /^\s*\[([^\]]+)\]\s*$/.exec(line);
    if (heading) section = heading[1] ?? "";
    const pair = /^\s*([^#;=\s][^=]*?)\s*=\s*(.*?)\s*$/.exec(line);
    if (pair?.[1] && !heading) values[`${section}/${pair[1]}`] = pair[2] ?? "";
  }
  return values;
}
