import { isDeepStrictEqual } from "node:util";
import { holdsRole } from "./policy.ts";
import type { ContainerJson } from "./run-template.ts";
import type { GoogleState, Json, StoredOperation, StoredService } from "./state.ts";
import { etagOf, startOperation } from "./state.ts";

interface Target {
  type?: string;
  revision?: string;
  percent?: number;
  tag?: string;
}

/** Begins a rollout of what the service now says; it ends after a few reads. */
export function rollOut(state: GoogleState, service: StoredService, newRevision: boolean): StoredOperation {
  const { resource } = service;
  const name = resource.name as string;
  resource.generation = String(Number(resource.generation) + 1);
  resource.etag = etagOf(state);
  resource.reconciling = true;
  resource.terminalCondition = { type: "Ready", state: "CONDITION_RECONCILING" };
  const revision = newRevision ? addRevision(service) : undefined;
  let outcome: { error?: { code: number; message: string }; response?: Json } | undefined;
  const finish = async () => {
    if (outcome) return;
    // A revision that failed makes the service count as failed until a newer one is ready.
    const error = revision === undefined ? service.failure : await startRevision(state, service, revision);
    service.failure = error;
    service.rollout = undefined;
    settle(state, service, error);
    outcome = error ? { error: { code: 9, message: error.message } } : { response: snapshot(service) };
  };
  service.rollout = { reads: 3, finish };
  return startOperation(
    state,
    name.split("/services/")[0] ?? "",
    async () => {
      await finish();
      return outcome ?? {};
    },
    2,
  );
}

function addRevision(service: StoredService): Json {
  const { resource } = service;
  const template = resource.template as Json;
  const short = (resource.name as string).split("/").at(-1);
  service.created += 1;
  const given = template.revision as string | undefined;
  const name = given ?? `${short}-${String(service.created).padStart(5, "0")}-${"abc"}`;
  const { revision: _, ...rest } = template;
  const revision: Json = {
    ...structuredClone(rest),
    name: `${resource.name}/revisions/${name}`,
    service: short,
    createTime: new Date(Date.UTC(2026, 0, 1) + service.created * 60_000).toISOString(),
    conditions: [{ type: "Ready", state: "CONDITION_RECONCILING" }],
  };
  resource.latestCreatedRevision = revision.name;
  service.revisions.push({ name, resource: revision, instance: undefined });
  return revision;
}

export interface Failure {
  readonly message: string;
  readonly reason?: string;
  readonly revisionReason?: string;
}

async function startRevision(
  state: GoogleState,
  service: StoredService,
  revision: Json,
): Promise<Failure | undefined> {
  const name = (revision.name as string).split("/").at(-1) ?? "";
  const container = (revision.containers as ContainerJson[])[0];
  const failure = (await problemOf(state, revision)) ?? (await started());
  revision.conditions = [
    failure
      ? { type: "Ready", state: "CONDITION_FAILED", ...failure }
      : { type: "Ready", state: "CONDITION_SUCCEEDED" },
  ];
  if (!failure) service.resource.latestReadyRevision = revision.name;
  return failure;

  async function started(): Promise<Failure | undefined> {
    const port = container?.ports?.[0]?.containerPort ?? 8080;
    try {
      const env = Object.fromEntries(
        (container?.env ?? []).map((entry) => [entry.name, resolvedValue(state, entry)]),
      );
      const instance = await state.images.start(container?.image ?? "", {
        ...env,
        PORT: String(port),
        K_REVISION: name,
      });
      const index = service.revisions.findIndex((known) => known.name === name);
      service.revisions[index] = { name, resource: revision, instance };
      return undefined;
    } catch {
      state.logs.push({
        insertId: `log-${state.next()}`,
        timestamp: new Date(Date.UTC(2026, 0, 2)).toISOString(),
        severity: "ERROR",
        textPayload: "Container called exit(1).",
        resource: { type: "cloud_run_revision", labels: { revision_name: name } },
      });
      return {
        message: `Revision '${name}' is not ready and cannot serve traffic. The user-provided container failed to start and listen on the port defined provided by the PORT=${port} environment variable. Logs for this revision might contain more information.`,
        revisionReason: "HEALTH_CHECK_CONTAINER_ERROR",
      };
    }
  }
}

async function problemOf(state: GoogleState, revision: Json): Promise<Failure | undefined> {
  const container = (revision.containers as ContainerJson[])[0];
  const name = (revision.name as string).split("/").at(-1);
  if (!(await state.images.has(container?.image ?? "")))
    return { message: `Image '${container?.image}' not found.`, reason: "CONTAINER_MISSING" };
  for (const [index, entry] of (container?.env ?? []).entries()) {
    const ref = entry.valueSource?.secretKeyRef;
    if (!ref) continue;
    const secret = state.secrets.get(ref.secret.split("/").at(-1) ?? "");
    const member = `serviceAccount:${revision.serviceAccount}`;
    const allowed = secret && holdsRole(secret.policy, "roles/secretmanager.secretAccessor", member);
    if (allowed && resolvedValue(state, entry) !== undefined) continue;
    return {
      message: `Revision '${name}' is not ready and cannot serve traffic. spec.template.spec.containers[0].env[${index}].value_from.secret_key_ref.name: Permission denied on secret: ${ref.secret} for Revision service account ${revision.serviceAccount}.`,
      reason: "SECRETS_ACCESS_CHECK_FAILED",
    };
  }
  return undefined;
}

function resolvedValue(
  state: GoogleState,
  entry: NonNullable<ContainerJson["env"]>[number],
): string | undefined {
  const ref = entry.valueSource?.secretKeyRef;
  if (!ref) return entry.value ?? "";
  const versions = state.secrets.get(ref.secret.split("/").at(-1) ?? "")?.versions ?? [];
  const index = ref.version === "latest" ? versions.length : Number(ref.version);
  const data = versions[index - 1]?.data;
  return data === undefined ? undefined : Buffer.from(data, "base64").toString("utf8");
}

/** Traffic and conditions once a rollout has ended. A failed revision gets no traffic. */
function settle(state: GoogleState, service: StoredService, failure: Failure | undefined): void {
  const { resource } = service;
  resource.reconciling = false;
  resource.observedGeneration = resource.generation;
  resource.terminalCondition = failure
    ? { type: "Ready", state: "CONDITION_FAILED", ...failure }
    : { type: "Ready", state: "CONDITION_SUCCEEDED" };
  resource.conditions = [
    failure
      ? { type: "ConfigurationsReady", state: "CONDITION_FAILED", ...failure }
      : { type: "ConfigurationsReady", state: "CONDITION_SUCCEEDED" },
  ];
  const ready = (resource.latestReadyRevision as string | undefined)?.split("/").at(-1);
  const targets = ((resource.traffic as Target[] | undefined) ?? []).length
    ? (resource.traffic as Target[])
    : [{ type: "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", percent: 100 }];
  resource.trafficStatuses =
    ready === undefined ? [] : targets.map((target) => toStatus(state, service, target));
}

function toStatus(state: GoogleState, service: StoredService, target: Target): Json {
  const ready = (service.resource.latestReadyRevision as string).split("/").at(-1);
  const latest = target.type === "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST";
  return {
    ...target,
    // The type "latest" is answered without a name for its own revision, as the server does.
    ...(latest ? {} : { revision: target.revision ?? ready }),
    ...(target.tag ? { uri: tagUrl(state, service, target.tag) } : {}),
  };
}

export function tagUrl(state: GoogleState, service: StoredService, tag: string): string {
  return `https://${tag}---${hostOf(state, service)}`;
}

export function hostOf(_state: GoogleState, service: StoredService): string {
  return `${(service.resource.name as string).split("/").at(-1)}-a1b2c3d4e5-uc.a.run.app`;
}

export function snapshot(service: StoredService): Json {
  return structuredClone(service.resource);
}

export function isNewRevision(before: Json | undefined, after: Json): boolean {
  const { revision: _, ...rest } = before ?? {};
  const { revision: __, ...wanted } = after;
  return !isDeepStrictEqual(rest, wanted);
}
