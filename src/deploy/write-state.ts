import type { HealthCheckResult } from "../core/models/deployment.ts";
import type { Deployment } from "./deployment.ts";
import type { Prepared } from "./plan.ts";
import type { Release } from "./platform.ts";
import { detailsOf } from "./state.ts";

export interface StateChange {
  readonly prepared: Prepared;
  readonly image: string;
  readonly status: string;
  readonly release: Release | undefined;
  readonly previous: Release | undefined;
  readonly health?: HealthCheckResult | undefined;
  /** The new release never served. */
  readonly failed?: boolean;
}

/** How many earlier releases a state records. */
const HISTORY = 10;

/** Records how a deployment ended. A failed one keeps the record of the previous release. */
export async function writeState(deployment: Deployment, change: StateChange): Promise<void> {
  const { target, platform, state, tools } = deployment;
  const { prepared, image, status, release, previous, health, failed = false } = change;
  const { state: before, secrets, source, imageTag } = prepared;
  const details = detailsOf(before);
  const now = tools.now().toISOString();
  const hashes = Object.fromEntries(Object.entries(secrets.values).map(([name, { hash }]) => [name, hash]));
  const earlier = [...(previous ? [previous] : []), ...(details.previous ?? [])].filter(
    (one, index, all) =>
      one.revision !== release?.revision &&
      all.findIndex((other) => other.revision === one.revision) === index,
  );

  await state.write({
    version: 2,
    service_name: target.serviceName,
    platform: platform.name,
    environment: target.environment,
    region: target.region,
    project_id: target.projectId ?? null,
    image_tag: failed ? (before?.image_tag ?? imageTag) : imageTag,
    image_digest: (failed ? release?.image : image)?.split("@")[1] ?? null,
    service_url: release?.url ?? before?.service_url ?? null,
    revision: release?.revision ?? null,
    created_at: before?.created_at ?? now,
    updated_at: now,
    status,
    health_status: failed && status === "running" ? "unknown" : (health?.status ?? "unknown"),
    port: prepared.spec.port,
    api_key_generated: (before?.api_key_generated ?? false) || secrets.generated.includes("SERVICE_API_KEY"),
    rsa_key_generated:
      (before?.rsa_key_generated ?? false) || secrets.generated.includes("SERVICE_RSA_PRIVATE_KEY"),
    provider_data: {
      ...(release ? { release } : {}),
      previous: earlier.slice(0, HISTORY),
      ...(failed
        ? { context_hash: details.context_hash, image: details.image }
        : { context_hash: source, image }),
      secret_hashes: { ...details.secret_hashes, ...hashes },
      pinned: failed && status === "running",
      ...(health ? { last_health: health } : {}),
    },
  });
}
