import { createHash } from "node:crypto";
import { CONTEXT, EXPIRES, MARKS } from "../../../deploy/config.ts";
import { labelChanges, wantedLabels } from "../../../deploy/labels.ts";
import { isGiven } from "../../../deploy/plan.ts";
import type { DeployTarget, ReleaseSpec } from "../../../deploy/platform.ts";
import { changesOf, type FieldChange } from "../../../deploy/spec-changes.ts";
import { NONE, type ServerFlags } from "./flags.ts";

/** Settings of a container besides image, variables and secrets. */
export interface Settings {
  /** Port of the service; open on the server if there is no domain. */
  readonly port: number;
  readonly bind?: string;
  readonly domain?: string;
  readonly memory?: string;
  readonly cpus?: string;
  /** Image of the database that runs beside the service, for its jobs. */
  readonly postgres?: string;
  /** Labels of the container, by name. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** What a release is made from: a label of its container. */
export interface ServerRecord extends Settings {
  readonly image: string;
  readonly env: Readonly<Record<string, string>>;
  /** Volumes of its secrets by variable; never a value. */
  readonly secrets: Readonly<Record<string, string>>;
}

/** The record of a release as text, whatever the order of its variables. */
export function recordText({ image, env, secrets, ...settings }: ServerRecord): string {
  return JSON.stringify({ image, ...sorted(settings), env: sorted(env), secrets: sorted(secrets) });
}

export function parseRecord(text: string): ServerRecord {
  return JSON.parse(text) as ServerRecord;
}

export function revisionOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 12);
}

/** What is equal on all servers that serve the same, although each one numbers its secrets and may build its image. */
export function versionOf({ bind, image, env, secrets, ...others }: ServerRecord): string {
  const built = env[CONTEXT];
  const variables = Object.entries(env).filter(([name]) => ![...MARKS, EXPIRES].includes(name));
  const hashes = Object.entries(secrets).map(([name, ref]) => [name, ref.split(".").at(-1) ?? ""]);
  return revisionOf(
    recordText({
      ...others,
      image: isGiven(built) ? image : String(built).replace(/-[^-]*$/, ""),
      env: Object.fromEntries(variables),
      secrets: Object.fromEntries(hashes),
    }),
  );
}

/** The settings of a release: options that are given, and those of the running one. */
export function wantedSettings(
  { flags, labels }: Pick<DeployTarget<ServerFlags>, "flags" | "labels">,
  port: number,
  live: Settings | undefined,
): Settings {
  const settings: Record<string, string> = {};
  for (const key of ["bind", "domain", "memory", "cpus", "postgres"] as const) {
    const value = flags[key] ?? live?.[key];
    if (value !== undefined && value !== NONE) settings[key] = value;
  }
  const marks = wantedLabels({ labels }, live?.labels);
  return { port, ...settings, ...(Object.keys(marks).length === 0 ? {} : { labels: sorted(marks) }) };
}

/** The record of a release, once all its secrets are stored. */
export function wantedRecord(spec: ReleaseSpec, settings: Settings): ServerRecord {
  const secrets = Object.entries(spec.secrets).map(([name, ref]) => {
    if (ref === undefined) throw new Error(`Secret ${name} is not stored`);
    return [name, ref.ref] as const;
  });
  return { image: spec.image, env: spec.env, secrets: Object.fromEntries(secrets), ...settings };
}

/** Differences of settings, for the plan. */
export function settingChanges(wanted: Settings, live: Settings | undefined): FieldChange[] {
  if (live === undefined) return [];
  const gone = Object.fromEntries(Object.keys(live.labels ?? {}).map((name) => [name, null]));
  const labels = labelChanges({ labels: { ...gone, ...wanted.labels } }, live.labels ?? {});
  const keys = ["port", "bind", "domain", "memory", "cpus", "postgres"] as const;
  return [...changesOf(keys.map((key) => [key, live[key], wanted[key]])), ...labels];
}

/** Whether a container shares a network with the proxy or with its database. */
export function isInNetwork({ domain, postgres }: ServerRecord): boolean {
  return domain !== undefined || postgres !== undefined;
}

/** Where people reach a service with these settings. */
export function urlOf({ domain, bind, port }: Settings, address: string): string {
  if (domain !== undefined) return `https://${domain}`;
  const open = bind === undefined || bind === "0.0.0.0" || bind === "::" ? address : bind;
  return `http://${open.includes(":") ? `[${open}]` : open}:${port}`;
}

function sorted<T>(map: Readonly<Record<string, T>> | object): Record<string, T> {
  return Object.fromEntries(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)));
}
