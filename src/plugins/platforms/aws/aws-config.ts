import { homedir } from "node:os";
import { join } from "node:path";
import { readIfThereSync } from "../../../core/base/read-if-there.ts";
import type { PlatformDefaults } from "../../../deploy/platform.ts";

type Env = Readonly<Record<string, string | undefined>>;

/**
 * The region as AWS's own tools resolve it: the SDK reads one variable, the first CLI the other, and both the
 * profile.
 */
export function awsDefaults(env: Env): PlatformDefaults {
  for (const name of ["AWS_REGION", "AWS_DEFAULT_REGION"]) {
    const value = env[name];
    if (value) return { region: { value, source: name } };
  }
  const profile = env.AWS_PROFILE ?? "default";
  const path = env.AWS_CONFIG_FILE ?? join(env.HOME ?? homedir(), ".aws", "config");
  const value = readSection(path, profile === "default" ? "default" : `profile ${profile}`).region;
  return value ? { region: { value, source: `profile "${profile}" in ${path}` } } : {};
}

/** Where the credentials come from, as text. */
export function credentialsSource(env: Env): string {
  if (env.AWS_ACCESS_KEY_ID) return "AWS_ACCESS_KEY_ID";
  if (env.AWS_PROFILE) return `profile "${env.AWS_PROFILE}"`;
  return "the default chain (profile, web identity, container or instance role)";
}

/** What to do if a login is no longer accepted. */
export function renewal(env: Env): string {
  if (env.AWS_ACCESS_KEY_ID)
    return "Renew AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or unset them and log in with: aws sso login (or aws configure)";
  const profile = env.AWS_PROFILE ? ` --profile ${env.AWS_PROFILE}` : "";
  return `Log in with: aws sso login${profile} (or aws configure${profile})`;
}

function readSection(path: string, section: string): Record<string, string> {
  const values: Record<string, string> = {};
  let inside = false;
  for (const line of (readIfThereSync(path) ?? "").split(/\r?\n/)) {
    const heading = /^\s*\[\s*([^\]]+?)\s*\]/.exec(line);
    if (heading) inside = heading[1] === section;
    const pair = /^([\w-]+)\s*=\s*(.*?)\s*$/.exec(line);
    if (inside && pair?.[1]) values[pair[1]] = pair[2] ?? "";
  }
  return values;
}
