import type { Answer, Received } from "../http-server.ts";
import { invalid, notFound, refuse } from "./error.ts";
import { readPolicy, writePolicy } from "./policy.ts";
import type { GoogleState, Json } from "./state.ts";
import { newPolicy, operationJson, readOperation, startOperation } from "./state.ts";

/** Cloud Storage, as far as sources of builds and buckets of jobs need it. */
export async function storageApi(state: GoogleState, request: Received, body: Json): Promise<Answer> {
  const { method, path, query } = request;
  if (path === "/storage/v1/b" && method === "POST") {
    const name = String(body.name);
    if (!/^[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]$/.test(name)) return invalid("Invalid bucket name");
    if (query.get("project") !== state.project) return invalid("Required parameter: project");
    if (state.buckets.has(name))
      return {
        status: 409,
        body: {
          error: {
            code: 409,
            message: "The requested bucket name is not available.",
            errors: [{ reason: "conflict", domain: "global", message: "taken" }],
          },
        },
      };
    const resource = {
      ...body,
      kind: "storage#bucket",
      projectNumber: state.number,
      location: String(body.location ?? "US").toUpperCase(),
    };
    state.buckets.set(name, {
      projectNumber: state.number,
      objects: new Map(),
      resource,
      policy: newPolicy(state),
    });
    return { status: 200, body: resource };
  }
  const match = /^\/(?:upload\/)?storage\/v1\/b\/([^/]+)(?:\/o(?:\/([^/]+))?)?(\/iam)?$/.exec(path);
  const bucket = state.buckets.get(match?.[1] ?? "");
  if (!bucket) return notFound();
  if (bucket.projectNumber !== state.number && !bucket.open)
    return refuse(403, "PERMISSION_DENIED", "no access to the bucket");
  if (match?.[3]) {
    const kept = { policy: bucket.policy ?? newPolicy(state) };
    bucket.policy = kept.policy;
    if (method === "GET") return bucketPolicy(readPolicy(kept.policy));
    if (body.etag !== undefined && body.etag !== kept.policy.etag)
      return refuse(412, "FAILED_PRECONDITION", "Pre-conditions not met.");
    const written = writePolicy(state, kept, { policy: body });
    bucket.policy = kept.policy;
    return bucketPolicy(written);
  }
  if (path.startsWith("/upload/")) {
    const name = query.get("name") ?? "";
    const generation = String(1_700_000_000_000_000 + state.next());
    bucket.objects.set(name, { generation, data: request.raw });
    return { status: 200, body: { kind: "storage#object", name, bucket: match?.[1], generation } };
  }
  if (match?.[2] !== undefined) {
    const name = decodeURIComponent(match[2]);
    const object = bucket.objects.get(name);
    return object
      ? { status: 200, body: { name, bucket: match[1], generation: object.generation } }
      : notFound();
  }
  return {
    status: 200,
    body: bucket.resource ?? {
      kind: "storage#bucket",
      name: match?.[1],
      projectNumber: bucket.projectNumber,
    },
  };
}

function bucketPolicy(answer: Answer): Answer {
  return answer.status === 200
    ? { ...answer, body: { ...(answer.body as Json), kind: "storage#policy" } }
    : answer;
}

/** `builds:submit` of Cloud Run. */
export async function submitBuild(state: GoogleState, body: Json): Promise<Answer> {
  if (state.switches.noSubmitApi) return notFound();
  if (!body.dockerBuild && !body.buildpackBuild) return invalid("a kind of build is required");
  const source = body.storageSource as { bucket: string; object: string } | undefined;
  return started(state, source, String(body.imageUri), (operation) => ({
    buildOperation: operation,
    baseImageUri: "",
  }));
}

export async function cloudBuildApi(state: GoogleState, request: Received, body: Json): Promise<Answer> {
  const operation = await readOperation(state, request.path.slice("/v1/".length));
  if (operation) return { status: 200, body: operation };
  if (request.method !== "POST" || !request.path.endsWith("/builds")) return notFound();
  const source = (body.source as Json | undefined)?.storageSource as
    | { bucket: string; object: string }
    | undefined;
  return started(state, source, String((body.images as string[])[0]), (running) => running);
}

function started(
  state: GoogleState,
  source: { bucket: string; object: string } | undefined,
  image: string,
  toBody: (operation: Json) => unknown,
): Answer {
  const object = state.buckets.get(source?.bucket ?? "")?.objects.get(source?.object ?? "");
  if (!object || !source?.object.endsWith(".tar.gz")) return invalid("source: no such .tar.gz object");
  const id = `build-${state.next()}`;
  const metadata = {
    "@type": "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata",
    build: {
      id,
      status: "WORKING",
      logUrl: `https://console.cloud.google.com/cloud-build/builds/${id}`,
    } as Json,
  };
  state.logs.push({
    insertId: `build-log-${id}`,
    timestamp: new Date(Date.UTC(2026, 0, 3) + state.next() * 1000).toISOString(),
    textPayload: "Step 1/9 : FROM node:22-slim",
    resource: { type: "build", labels: { build_id: id } },
  });
  const operation = startOperation(
    state,
    `projects/${state.project}/locations/${state.region}`,
    async () => {
      if (state.switches.failBuild) {
        metadata.build = {
          ...metadata.build,
          status: "FAILURE",
          failureInfo: { type: "USER_BUILD_STEP", detail: "Build step failure" },
        };
        return { error: { code: 2, message: "Build failed; check build logs for details" } };
      }
      const digest = (state.switches.builtImage ?? image).split("@")[1] ?? "";
      metadata.build = {
        ...metadata.build,
        status: "SUCCESS",
        results: { images: [{ name: image, digest }] },
      };
      return { response: metadata.build };
    },
    2,
    metadata,
  );
  return { status: 200, body: toBody(operationJson(operation)) };
}
