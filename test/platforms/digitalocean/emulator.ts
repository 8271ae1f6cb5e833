import { checkDigitalOcean } from "../contract/digitalocean.ts";
import { forward } from "../forward.ts";
import type { Answer, Received } from "../http-server.ts";
import { serveHttp } from "../http-server.ts";
import type { ImageRunner } from "../instances.ts";
import { Recorder } from "../recorder.ts";
import { appsApi, notFound, refuse } from "./apps.ts";
import { urlOf } from "./deployments.ts";
import type { DigitalOceanState, Json } from "./state.ts";
import { newDigitalOceanState } from "./state.ts";

export interface DigitalOceanEmulator {
  readonly state: DigitalOceanState;
  readonly recorder: Recorder;
  readonly env: Readonly<Record<string, string>>;
  readonly url: string;
  frontFor(host: string): string | undefined;
  close(): Promise<void>;
}

/** One DigitalOcean account with App Platform and container registries, strict about what it takes. */
export async function startDigitalOcean(images: ImageRunner): Promise<DigitalOceanEmulator> {
  const state = newDigitalOceanState(images);
  const recorder = new Recorder();
  const server = await serveHttp((request) => answer(state, recorder, request));
  const front = await serveHttp((request) => serveUsers(state, request));
  return {
    state,
    recorder,
    url: server.url,
    env: { DIGITALOCEAN_API_URL: server.url, DIGITALOCEAN_ACCESS_TOKEN: state.token },
    frontFor: (host) => (host.endsWith(".ondigitalocean.app") ? front.url : undefined),
    async close() {
      await Promise.all([server.close(), front.close()]);
    },
  };
}

async function answer(
  state: DigitalOceanState,
  recorder: Recorder,
  request: Received,
): Promise<Answer | undefined> {
  const body = request.raw.length > 0 ? (JSON.parse(request.raw.toString("utf8")) as Json) : undefined;
  const { method, path, query } = request;
  const mutating = method !== "GET" && !/\/(propose|validate)$/.test(path);
  const result = await recorder.handle({ name: `${method} ${path}`, mutating }, request, () =>
    act(state, request, body ?? {}),
  );
  recorder.violations.push(
    ...checkDigitalOcean(
      { method, path, query, body },
      result && result.status < 300 ? { status: result.status, body: result.body } : undefined,
    ),
  );
  return result;
}

async function act(state: DigitalOceanState, request: Received, body: Json): Promise<Answer> {
  if (request.headers.authorization !== `Bearer ${state.token}`)
    return refuse(401, "unauthorized", "Unable to authenticate you.");
  const { path, method } = request;
  if (path.startsWith("/v2/apps")) return appsApi(state, request, body);
  if (path === "/v2/account") return { status: 200, body: { account: account(state) } };
  if (path.startsWith("/v2/registries")) return registries(state, method, path, request.query, body);
  if (path.startsWith("/v2/registry") && state.registries.length > 1)
    return refuse(
      412,
      "precondition_failed",
      "This API is not supported if you have created multiple registries. Please use '/v2/registries/{registry_name}' instead.",
    );
  return notFound();
}

function account(state: DigitalOceanState): Json {
  return {
    droplet_limit: 25,
    floating_ip_limit: 5,
    email: "ops@example.com",
    uuid: "b6fr89dbf6d9156cace5f3c78dc9851d957381ef",
    email_verified: true,
    status: state.switches.status,
    status_message: "",
  };
}

function registries(
  state: DigitalOceanState,
  method: string,
  path: string,
  query: URLSearchParams,
  body: Json,
): Answer {
  const all = state.registries.map(({ name, region }) => ({ name, region }));
  if (path === "/v2/registries" && method === "GET") return { status: 200, body: { registries: all } };
  if (path === "/v2/registries") {
    const { name, subscription_tier_slug, region } = body as {
      name: string;
      subscription_tier_slug: string;
      region: string;
    };
    if (!subscription_tier_slug)
      return refuse(422, "unprocessable_entity", "subscription_tier_slug is required");
    if (all.some((one) => one.name === name))
      return refuse(409, "conflict", "registry name is already taken");
    state.registries.push({ name, region, tier: subscription_tier_slug });
    return { status: 201, body: { registry: { name, region } } };
  }
  const [, name = "", tail = ""] = /^\/v2\/registries\/([^/]+)(.*)$/.exec(path) ?? [];
  const registry = all.find((one) => one.name === name);
  if (!registry) return notFound();
  if (tail === "" && method === "GET") return { status: 200, body: { registry } };
  if (tail !== "/docker-credentials") return notFound();
  state.logins.push({ query: Object.fromEntries(query) });
  const auth = Buffer.from(`${state.token}:${state.token}`).toString("base64");
  return { status: 200, body: { auths: { "registry.digitalocean.com": { auth } } } };
}

async function serveUsers(state: DigitalOceanState, request: Received): Promise<Answer> {
  const host = request.headers["x-forwarded-host"] ?? "";
  const app = [...state.apps.values()].find((one) => urlOf(one) === `https://${host}`);
  const instance = app?.active?.instance;
  if (!instance) return { status: 404, body: "App not found", headers: { "content-type": "text/plain" } };
  return forward(instance, request);
}
