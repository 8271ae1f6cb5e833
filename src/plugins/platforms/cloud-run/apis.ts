import { isCloudError } from "../cloud/cloud-error.ts";
import { wantsBucket } from "./buckets.ts";
import type { Context } from "./context.ts";
import { waitForOperation } from "./operations.ts";
import type { Operation } from "./service-types.ts";

export interface ApiState {
  readonly name: string;
  readonly enabled: boolean;
  /** The project's number, which is part of the service's address. */
  readonly projectNumber: string | undefined;
}

/** APIs that this target needs. */
export function neededApis(context: Context): string[] {
  const remote = context.target.flags.useCloudBuild;
  return [
    ...["run.googleapis.com", "artifactregistry.googleapis.com", "secretmanager.googleapis.com"],
    ...(remote ? ["cloudbuild.googleapis.com"] : []),
    ...(remote || wantsBucket(context.target) ? ["storage.googleapis.com"] : []),
  ];
}

/** Whether an API is enabled in the project. */
export async function readApi(context: Context, name: string): Promise<ApiState> {
  const google = await context.google();
  const found = await google.get<{ state?: string; parent?: string }>(
    "serviceusage",
    `/v1/projects/${context.project}/services/${name}`,
  );
  const number = found.parent?.replace(/^projects\//, "");
  return {
    name,
    enabled: found.state === "ENABLED",
    projectNumber: number !== undefined && /^\d+$/.test(number) ? number : undefined,
  };
}

/** Enables those that are not. Calls may still be refused as disabled for minutes. */
export async function enableApis(context: Context): Promise<void> {
  const states = await Promise.all(neededApis(context).map((name) => readState(context, name)));
  const serviceIds = states.flatMap((state) => (state && !state.enabled ? [state.name] : []));
  const google = await context.google();
  if (serviceIds.length === 0) {
    // A killed run may have enabled them a moment ago.
    if (context.tools.recall("apis.enable")) google.expectPropagation();
    return;
  }
  await context.tools.journal({ step: "apis.enable", data: { serviceIds } }, async (note) => {
    const operation = await google.send<Operation>(
      "serviceusage",
      "POST",
      `/v1/projects/${context.project}/services:batchEnable`,
      { body: { serviceIds }, idempotent: true },
    );
    await note({ operation: operation.name });
    await waitForOperation(context, "serviceusage", operation);
  });
  google.expectPropagation();
}

/**
 * For a user who may deploy but not read API states, assumes that they are enabled: the calls themselves will
 * show it.
 */
async function readState(context: Context, name: string): Promise<ApiState | undefined> {
  try {
    return await readApi(context, name);
  } catch (error) {
    if (isCloudError(error) && error.status === 403) return undefined;
    throw error;
  }
}

/** The project's number, from wherever it may be read. */
export async function readProjectNumber(context: Context): Promise<string | undefined> {
  const state = await readState(context, "run.googleapis.com");
  if (state?.projectNumber !== undefined) return state.projectNumber;
  const google = await context.google();
  try {
    const project = await google.get<{ name?: string }>(
      "cloudresourcemanager",
      `/v3/projects/${context.project}`,
    );
    return project.name?.replace(/^projects\//, "");
  } catch (error) {
    if (isCloudError(error) && error.status === 403) return undefined;
    throw error;
  }
}
