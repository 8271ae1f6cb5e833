import { checkGoogle } from "../contract/google.ts";
import { forward } from "../forward.ts";
import type { Answer, Received, RunningServer } from "../http-server.ts";
import { serveHttp } from "../http-server.ts";
import type { ImageRunner } from "../instances.ts";
import { Recorder } from "../recorder.ts";
import { cloudBuildApi, storageApi, submitBuild } from "./build-apis.ts";
import { disabled, refuse } from "./error.ts";
import {
  artifactRegistryApi,
  billingApi,
  iamApi,
  loggingApi,
  secretManagerApi,
  serviceUsageApi,
} from "./other-apis.ts";
import { holdsRole } from "./policy.ts";
import { runApi } from "./run.ts";
import type { GoogleState, Json, StoredService } from "./state.ts";
import { newGoogleState } from "./state.ts";

type Api = (state: GoogleState, request: Received, body: Json) => Promise<Answer>;
const APIS: Readonly<Record<string, Api>> = {
  run: runApi,
  artifactregistry: artifactRegistryApi,
  secretmanager: secretManagerApi,
  serviceusage: serviceUsageApi,
  cloudresourcemanager: iamApi,
  iam: iamApi,
  cloudbilling: billingApi,
  logging: loggingApi,
  storage: storageApi,
  cloudbuild: cloudBuildApi,
};
/** Where a login elsewhere is changed for a token of this cloud. */
const TOKENS = "sts";
/** APIs that a project must have enabled before they answer. */
const GATED: Readonly<Record<string, string>> = {
  run: "run.googleapis.com",
  artifactregistry: "artifactregistry.googleapis.com",
  secretmanager: "secretmanager.googleapis.com",
  cloudbuild: "cloudbuild.googleapis.com",
};

export interface GoogleEmulator {
  readonly state: GoogleState;
  readonly recorder: Recorder;
  /** Variables that lead Google's own tools, and ours, here. */
  readonly env: Readonly<Record<string, string>>;
  readonly url: string;
  /** Where the emulated addresses of services answer. */
  frontFor(host: string): string | undefined;
  close(): Promise<void>;
}

/** One project of Google Cloud, strict about what it takes, with all that a deployment to Cloud Run talks to. */
export async function startGoogle(options: {
  images: ImageRunner;
  apis?: readonly string[];
  env?: Readonly<Record<string, string>>;
}): Promise<GoogleEmulator> {
  const state = newGoogleState(options);
  for (const api of options.apis ?? Object.values(GATED)) state.apis.add(api);
  const recorder = new Recorder();
  const server = await serveHttp((request) => answer(state, recorder, request));
  const front = await serveHttp((request) => serveUsers(state, request));
  return {
    state,
    recorder,
    url: server.url,
    env: { ...overrides(server), CLOUDSDK_AUTH_ACCESS_TOKEN: state.token, ...options.env },
    frontFor: (host) =>
      host.endsWith(".run.app") || state.domains.get(host)?.reached ? front.url : undefined,
    async close() {
      await Promise.all([server.close(), front.close()]);
    },
  };
}

function overrides(server: RunningServer): Record<string, string> {
  const apis = [...Object.keys(APIS), TOKENS];
  return {
    ...Object.fromEntries(
      apis.map((api) => [`CLOUDSDK_API_ENDPOINT_OVERRIDES_${api.toUpperCase()}`, `${server.url}/_${api}/`]),
    ),
    CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS: `${server.url}/_${TOKENS}/`,
    CLOUDSDK_AUTH_TOKEN_HOST: `${server.url}/_${TOKENS}/token`,
  };
}

async function answer(state: GoogleState, recorder: Recorder, whole: Received): Promise<Answer | undefined> {
  const [, api = "", rest = ""] = /^\/_(\w+)(\/.*)$/.exec(whole.path) ?? [];
  const request = { ...whole, path: rest };
  if (api === TOKENS) return exchange(state, recorder, request);
  const handler = APIS[api];
  if (!handler) return refuse(404, "NOT_FOUND", `no API at ${whole.path}`);
  const json = request.headers["content-type"]?.includes("json") && request.raw.length > 0;
  const body = json ? (JSON.parse(request.raw.toString("utf8")) as Json) : undefined;
  const call = { name: `${api} ${request.method} ${rest}`, mutating: isMutating(request) };
  const { alt: _, prettyPrint: __, ...query } = Object.fromEntries(request.query);
  const seen = { method: request.method, path: rest, query: new URLSearchParams(query), body };
  const result = await recorder.handle(call, request, () => act(state, api, handler, request, body ?? {}));
  const plain = result && result.status < 300 ? result.body : undefined;
  recorder.violations.push(...checkGoogle(api, seen, plain));
  return result;
}

/** What a token of a code host becomes first: it is good for the token of an account only. */
const FEDERATED = "federated-token";

/** Google's security token service, and the tokens of service accounts. */
function exchange(state: GoogleState, recorder: Recorder, request: Received): Answer {
  if (request.path === "/tokeninfo") return tokenInfo(state, request);
  if (request.path.endsWith(":generateIdToken")) return issueIdToken(state, request);
  const { federation, token } = state;
  const issued_token_type = "urn:ietf:params:oauth:token-type:access_token";
  const issue = (access_token: string) => ({
    status: 200,
    body: { access_token, issued_token_type, token_type: "Bearer", expires_in: 3600 },
  });
  if (federation === undefined) return issue(token);
  recorder.calls.push({ name: `${TOKENS} ${request.method} ${request.path}`, mutating: false });
  if (request.path === "/v1/token") {
    const form = new URLSearchParams(request.raw.toString("utf8"));
    const isRight =
      form.get("grant_type") === "urn:ietf:params:oauth:grant-type:token-exchange" &&
      form.get("audience") === federation.audience &&
      form.get("subject_token") === federation.subject;
    if (isRight) return issue(FEDERATED);
    return { status: 400, body: { error: "invalid_grant", error_description: "The token is not accepted" } };
  }
  const account = /^\/v1\/projects\/-\/serviceAccounts\/(.+):generateAccessToken$/.exec(request.path)?.[1];
  if (account !== federation.account || request.headers.authorization !== `Bearer ${FEDERATED}`)
    return refuse(403, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getAccessToken' denied");
  const expireTime = new Date(Date.now() + 3_600_000).toISOString();
  return { status: 200, body: { accessToken: token, expireTime } };
}

function tokenInfo(state: GoogleState, request: Received): Answer {
  const form = new URLSearchParams(request.raw.toString("utf8"));
  if (form.get("access_token") !== state.token)
    return { status: 400, body: { error: "invalid_token", error_description: "Invalid Value" } };
  return { status: 200, body: { expires_in: "3599", ...(state.account ? { email: state.account } : {}) } };
}

function issueIdToken(state: GoogleState, request: Received): Answer {
  const account = /serviceAccounts\/(.+):generateIdToken$/.exec(decodeURIComponent(request.path))?.[1];
  const allowed = account === state.account && request.headers.authorization === `Bearer ${state.token}`;
  if (!allowed)
    return refuse(403, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getOpenIdToken' denied");
  const { audience } = JSON.parse(request.raw.toString("utf8")) as { audience: string };
  const token = `header.${Buffer.from(audience).toString("base64url")}.signature`;
  state.idTokens.set(token, audience);
  return { status: 200, body: { token } };
}

async function act(
  state: GoogleState,
  api: string,
  handler: Api,
  request: Received,
  body: Json,
): Promise<Answer> {
  if (request.headers.authorization !== `Bearer ${state.token}`)
    return refuse(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.");
  const gate = GATED[api];
  if (gate !== undefined && !state.apis.has(gate)) return disabled(gate, state.project);
  if (gate !== undefined && state.propagation > 0) {
    state.propagation -= 1;
    return disabled(gate, state.project);
  }
  if (api === "run" && request.path.endsWith("/builds:submit")) return submitBuild(state, body);
  return handler(state, request, body);
}

function isMutating({ method, path, query }: Received): boolean {
  if (method === "GET" || query.get("validateOnly") === "true") return false;
  return !/:(testIamPermissions|getIamPolicy|wait)$|entries:list$/.test(path);
}

/** What users of the deployed services get, by host name. */
async function serveUsers(state: GoogleState, request: Received): Promise<Answer> {
  const host = request.headers["x-forwarded-host"] ?? request.headers.host ?? "";
  for (const service of state.services.values()) {
    const target = targetOf(service, host, state);
    if (target === undefined) continue;
    const open =
      service.resource.invokerIamDisabled || holdsRole(service.policy, "roles/run.invoker", "allUsers");
    if (!open && !isLetIn(state, service, request.headers["x-serverless-authorization"]))
      return {
        status: 403,
        body: "<html><title>403 Forbidden</title></html>",
        headers: { "content-type": "text/html" },
      };
    const { scalingMode, manualInstanceCount } = (service.resource.scaling ?? {}) as Json;
    const { instance } = target;
    if (!instance || (scalingMode === "MANUAL" && !manualInstanceCount)) break;
    return forward(instance, request);
  }
  return { status: 404, body: "Page not found", headers: { "content-type": "text/html" } };
}

/** A token that was issued here is good for the address that it names only; gcloud's own are not looked into. */
function isLetIn(state: GoogleState, service: StoredService, header: string | undefined): boolean {
  const audience = state.idTokens.get(header?.replace("Bearer ", "") ?? "");
  return header !== undefined && (audience === undefined || audience === service.resource.uri);
}

function targetOf(service: StoredService, host: string, state: GoogleState) {
  const short = (service.resource.name as string).split("/").at(-1);
  const statuses = (service.resource.trafficStatuses ?? []) as {
    tag?: string;
    percent?: number;
    revision?: string;
    type?: string;
  }[];
  const tag = /^([a-z0-9-]+)---/.exec(host)?.[1];
  const rest = tag === undefined ? host : host.slice(tag.length + 3);
  const own = [`${short}-${state.number}.${state.region}.run.app`, `${short}-a1b2c3d4e5-uc.a.run.app`];
  if (!own.includes(rest) && state.domains.get(host)?.routeName !== short) return undefined;
  const status = statuses.find((entry) => (tag === undefined ? (entry.percent ?? 0) > 0 : entry.tag === tag));
  const latest = (service.resource.latestReadyRevision as string | undefined)?.split("/").at(-1);
  const name = status?.type === "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST" ? latest : status?.revision;
  return service.revisions.find((revision) => revision.name === name) ?? { instance: undefined };
}
