import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { keptReleases } from "../../../src/plugins/platforms/app-runner/kept-releases.ts";
import type { AwsState } from "../aws/state.ts";
import type { DigitalOceanState } from "../digitalocean/state.ts";
import type { GoogleState } from "../google/state.ts";

export type CloudState = GoogleState | DigitalOceanState | AwsState;

/** The content of a cloud and of the project's state file, the same text for two runs that did the same. */
export function describeWorld(state: CloudState, cwd: string, platform: string): string {
  const base = join(cwd, ".deployment/state", platform, "hello-dev");
  const text = JSON.stringify(
    { cloud: cloudOf(state), state: readState(`${base}.json`), journal: existsSync(`${base}.journal`) },
    null,
    1,
  );
  return withoutIds(text);
}

/** The part of a description that is about the cloud. */
export function cloudIn(description: string): string {
  return description.split('\n "state":')[0]!;
}

function cloudOf(state: CloudState): unknown {
  if ("express" in state) return awsOf(state);
  return "registries" in state ? digitalOceanOf(state) : googleOf(state);
}

function awsOf({ repositories, roles, secrets, scaling, services, express, buckets }: AwsState): unknown {
  return {
    buckets: [...buckets],
    repositories: [...repositories.keys()],
    roles: [...roles.values()].map(({ name, principal, tags, attached, inline }) => [
      name,
      principal,
      tags,
      [...attached],
      [...inline],
    ]),
    secrets: [...secrets.values()].map(({ arn, tags, versions, current, deleted }) => [
      arn,
      tags,
      [...versions.values()],
      versions.get(current),
      deleted,
    ]),
    scaling: scaling
      .filter(({ status }) => status === "ACTIVE")
      .map(({ name, min, max }) => [name, min, max]),
    services: services.map(({ status, config, tags, operations, domains }) => [
      status,
      domains.map(({ name }) => name),
      config,
      tags.filter(({ Key }) => !Key.startsWith("svc-release-")),
      keptReleases(tags).map(({ keys: _, ...release }) => release),
      operations.map((one) => [one.type, one.status]),
    ]),
    express: [...express.values()].map(({ status, active, tags, deployments }) => [
      status,
      active,
      tags,
      deployments.map((one) => [one.status, one.target]),
    ]),
  };
}

function googleOf({ apis, repositories, secrets, services, buckets, domains }: GoogleState): unknown {
  return {
    apis: [...apis].sort(),
    repositories: [...repositories],
    secrets: [...secrets.values()].map(({ resource, versions, policy }) => [
      { ...resource, etag: "" },
      versions,
      policy.bindings,
    ]),
    services: [...services.values()].map(({ resource, revisions, policy }) => [
      { ...resource, etag: "", generation: "", observedGeneration: "" },
      revisions.map((revision) => revision.resource),
      policy.bindings,
    ]),
    domains: [...domains].map(([name, { routeName }]) => [name, routeName]),
    buckets: [...buckets].map(([name, { resource, policy }]) => [name, resource, policy?.bindings]),
  };
}

function digitalOceanOf({ registries, apps, vault }: DigitalOceanState): unknown {
  const text = JSON.stringify({
    registries,
    apps: [...apps.values()].map(({ spec, deployments, pinned }) => [
      spec,
      deployments.map((one) => [one.phase, one.cause, one.spec]),
      pinned,
    ]),
  });
  const known = [...vault].reduce((all, [hidden, value]) => all.replaceAll(hidden, `secret ${value}`), text);
  return JSON.parse(known);
}

function readState(path: string): unknown {
  if (!existsSync(path)) return null;
  const state = JSON.parse(readFileSync(path, "utf8")) as { provider_data: object };
  return { ...state, provider_data: { ...state.provider_data, last_health: null } };
}

/** What clouds make up: ids of all kinds, and hashes of them. */
const IDS = [
  /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/,
  /0{20,}\d{1,12}/,
  /(?<=-)Ab\d{4}/,
  /(?<=service-(revision|deployment)\/default\/hello-dev\/)d?\d+/,
  /(?<="revision": ")\d+(?=")/,
  /(?<=autoscalingconfiguration\/svc-[0-9a-f]+-\d+-\d+\/\d+\/)\d+/,
  /\d{10}(?=\.[a-z0-9-]+\.awsapprunner)/,
  /(?<=SVC_SECRET_VERSIONS": ")[0-9a-f]{16}/,
  /(?<=")[0-9a-f]{16}-[0-9a-f]{16}(?=")/,
];

/**
 * Ids are numbered in the order in which they appear, so that what belonged together still does. Times are
 * omitted.
 */
function withoutIds(text: string): string {
  const seen = new Map<string, string>();
  return text
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
    .replaceAll(new RegExp(IDS.map(({ source }) => source).join("|"), "g"), (id) => {
      const name = seen.get(id) ?? `<id ${seen.size + 1}>`;
      seen.set(id, name);
      return name;
    });
}
