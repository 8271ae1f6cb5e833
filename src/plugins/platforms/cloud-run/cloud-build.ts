import { DeployError } from "../../../deploy/errors.ts";
import type { BuildContext } from "../../../deploy/platform.ts";
import type { Context } from "./context.ts";
import { isNotFound } from "./google-error.ts";
import { buildLogLines, textOf } from "./logs.ts";
import { ensureRepository } from "./registry.ts";
import type { Operation } from "./service-types.ts";
import { type StoredObject, uploadSource } from "./source-bucket.ts";

interface Build {
  readonly id?: string;
  readonly status?: string;
  readonly statusDetail?: string;
  readonly logUrl?: string;
  readonly failureInfo?: { readonly type?: string; readonly detail?: string };
  readonly results?: { readonly images?: readonly { readonly name?: string; readonly digest?: string }[] };
}

const EVERY = 3000;

/** Builds on Cloud Build from an uploaded archive, and resolves with the digest of the pushed image. */
export async function buildRemotely(context: Context, build: BuildContext, ref: string): Promise<string> {
  await ensureRepository(context);
  const source = await uploadSource(context, build);
  const operation = await submit(context, source, ref, build.hash);
  const ended = await follow(context, operation, build);
  const digest = buildOf(ended)?.results?.images?.[0]?.digest;
  if (digest !== undefined) return digest;
  throw new DeployError("build_failed", "The remote build did not report a digest for its image", {
    detail: JSON.stringify(buildOf(ended)?.results ?? {}),
    fix: "Build on this machine instead: omit --use-cloud-build",
  });
}

async function submit(context: Context, source: StoredObject, ref: string, sum: string): Promise<Operation> {
  const earlier = context.tools.recall("build.submit");
  if (earlier?.operation && earlier.sum === sum && earlier.ref === ref)
    return { name: String(earlier.operation) };
  return context.tools.journal({ step: "build.submit", data: { sum, ref } }, async (note) => {
    const operation = await submitToRun(context, source, ref);
    await note({ operation: operation.name });
    return operation;
  });
}

async function submitToRun(context: Context, storageSource: StoredObject, ref: string): Promise<Operation> {
  const google = await context.google();
  try {
    const { buildOperation } = await google.send<{ buildOperation: Operation }>(
      "run",
      "POST",
      `/v2/${context.location}/builds:submit`,
      { body: { imageUri: ref, storageSource, dockerBuild: {}, tags: [context.target.serviceName] } },
    );
    return buildOperation;
  } catch (error) {
    // A user without access to this API gets a 404; Cloud Build's own API does the same.
    if (!isNotFound(error)) throw error;
  }
  return google.send<Operation>("cloudbuild", "POST", `/v1/${context.location}/builds`, {
    body: {
      source: { storageSource },
      steps: [{ name: "gcr.io/cloud-builders/docker", args: ["build", "--tag", ref, "."] }],
      images: [ref],
      tags: [context.target.serviceName],
      timeout: "1200s",
      options: { defaultLogsBucketBehavior: "REGIONAL_USER_OWNED_BUCKET", logging: "LEGACY" },
    },
  });
}

async function follow(context: Context, submitted: Operation, { onLine }: BuildContext): Promise<Operation> {
  const google = await context.google();
  let since: string | undefined;
  let last: string[] = [];
  for (;;) {
    const operation = await google.get<Operation>("cloudbuild", `/v1/${submitted.name}`);
    const build = buildOf(operation);
    const entries = build?.id === undefined ? [] : await buildLogLines(context, build.id, since);
    for (const entry of entries) onLine(textOf(entry));
    since = entries.at(-1)?.timestamp ?? since;
    last = [...last, ...entries.map(textOf)].slice(-20);
    if (operation.done) {
      if (operation.error === undefined && (build?.status ?? "SUCCESS") === "SUCCESS") return operation;
      throw buildError(operation, build, last);
    }
    await context.tools.sleep(EVERY);
  }
}

function buildError(operation: Operation, build: Build | undefined, log: readonly string[]): DeployError {
  const words = [build?.status, operation.error?.message ?? build?.statusDetail, build?.failureInfo?.detail];
  return new DeployError("build_failed", "The remote build failed", {
    detail: words.filter(Boolean).join(": "),
    outcome: "The running service was not changed",
    fix: build?.logUrl === undefined ? undefined : `See its log: ${build.logUrl}`,
    log,
  });
}

function buildOf(operation: Operation): Build | undefined {
  const { metadata, response } = operation;
  return (response ?? (metadata?.build as Build | undefined)) as Build | undefined;
}
