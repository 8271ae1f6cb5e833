import type { Answer, Received } from "../http-server.ts";
import { appJson, deploy, deploymentJson, isGoingOn, isSameSpec, normalised, tick } from "./deployments.ts";
import type { DigitalOceanState, Json, SpecJson, StoredApp } from "./state.ts";
import { newId } from "./state.ts";

const NAME = /^[a-z][a-z0-9-]{0,30}[a-z0-9]$/;
export const REGIONS = ["nyc", "sfo", "ams", "fra", "lon", "blr", "sgp", "syd", "tor", "atl"];
export const SIZES = [
  { slug: "apps-s-1vcpu-0.5gb", single_instance_only: true, scalable: false, usd_per_month: "5.00" },
  { slug: "apps-s-1vcpu-1gb", single_instance_only: false, scalable: false, usd_per_month: "12.00" },
  { slug: "apps-d-1vcpu-1gb", single_instance_only: false, scalable: true, usd_per_month: "34.00" },
];

export const refuse = (status: number, id: string, message: string): Answer => ({
  status,
  body: { id, message },
});
export const notFound = (): Answer =>
  refuse(404, "not_found", "The resource you were accessing could not be found.");
const invalid = (message: string): Answer => refuse(422, "unprocessable_entity", message);

export async function appsApi(state: DigitalOceanState, request: Received, body: Json): Promise<Answer> {
  const { method, path, query } = request;
  const rest = path.slice("/v2/apps".length);
  for (const app of state.apps.values()) await tick(state, app);
  if (rest === "/regions")
    return { status: 200, body: { regions: REGIONS.map((slug) => ({ slug, disabled: false })) } };
  if (rest === "/tiers/instance_sizes")
    return { status: 200, body: { instance_sizes: SIZES, discount_percent: 0 } };
  if (rest === "/propose") return propose(state, body);
  if (rest === "" && method === "GET") return page([...state.apps.values()].map(appJson), "apps", query);
  if (rest === "" && method === "POST") return create(state, body);
  const [, id = "", tail = ""] = /^\/([^/]+)(.*)$/.exec(rest) ?? [];
  const app = state.apps.get(id);
  if (!app) return notFound();
  if (tail === "" && method === "GET") return { status: 200, body: { app: appJson(app) } };
  if (tail === "" && method === "PUT") return update(state, app, body);
  if (tail === "" && method === "DELETE") {
    state.apps.delete(id);
    await Promise.all(app.deployments.map(({ instance }) => instance?.stop()));
    return { status: 200, body: { id } };
  }
  if (tail === "/deployments" && method === "GET")
    return page(app.deployments.map(deploymentJson), "deployments", query);
  if (tail === "/deployments") return pinnedRefusal(app) ?? deployed(deploy(state, app, "MANUAL"));
  const deployment = app.deployments.find((one) => tail.startsWith(`/deployments/${one.id}`));
  if (deployment && tail.endsWith("/logs"))
    return { status: 200, body: logUrls(state, query.get("follow") === "true") };
  if (deployment) return { status: 200, body: { deployment: deploymentJson(deployment) } };
  return rollback(state, app, tail, body);
}

function logUrls({ liveLog, token }: DigitalOceanState, follow: boolean): Json {
  return follow && liveLog ? { live_url: liveLog } : { historic_urls: [`${token}/none`] };
}

function create(state: DigitalOceanState, body: Json): Answer {
  const spec = body.spec as SpecJson;
  const problem = problemOf(spec, state);
  if (problem) return problem;
  if ([...state.apps.values()].some((app) => app.spec.name === spec.name))
    return refuse(409, "conflict", `App with name "${spec.name}" already exists.`);
  const app: StoredApp = {
    id: newId(state),
    spec: normalised(state, spec),
    deployments: [],
    active: undefined,
    pinned: false,
  };
  state.apps.set(app.id, app);
  deploy(state, app, "INITIAL");
  return { status: 200, body: { app: appJson(app) } };
}

function update(state: DigitalOceanState, app: StoredApp, body: Json): Answer {
  const spec = body.spec as SpecJson;
  const problem = problemOf(spec, state) ?? pinnedRefusal(app);
  if (problem) return problem;
  const wanted = normalised(state, spec);
  const same = isSameSpec(wanted, app.spec);
  app.spec = wanted;
  if (!same) deploy(state, app, "UPDATE_SPEC");
  return { status: 200, body: { app: appJson(app) } };
}

function rollback(state: DigitalOceanState, app: StoredApp, tail: string, body: Json): Answer {
  const target = app.deployments.find(({ id }) => id === body.deployment_id);
  if (tail === "/rollback/commit") {
    app.pinned = false;
    return { status: 200 };
  }
  if (!target) return notFound();
  const problem = app.pinned
    ? { code: "app_pinned", message: "the app is pinned" }
    : target.phase === "SUPERSEDED" || target.phase === "ACTIVE"
      ? undefined
      : { code: "incompatible_phase", message: `deployment is ${target.phase}` };
  if (tail === "/rollback/validate")
    return { status: 200, body: problem ? { valid: false, error: problem } : { valid: true } };
  if (tail !== "/rollback") return notFound();
  if (problem) return refuse(400, "bad_request", problem.message);
  if (!body.skip_pin) app.pinned = true;
  app.spec = structuredClone(target.spec);
  return deployed(deploy(state, app, "ROLLBACK", target.spec, target.id));
}

function pinnedRefusal(app: StoredApp): Answer | undefined {
  return app.pinned ? refuse(412, "precondition_failed", "the app is pinned to a deployment") : undefined;
}

function propose(state: DigitalOceanState, body: Json): Answer {
  const spec = body.spec as SpecJson;
  const problem = problemOf(spec, state);
  if (problem) return problem;
  const taken = [...state.apps.values()].some((app) => app.spec.name === spec.name && app.id !== body.app_id);
  const size = SIZES.find(({ slug }) => slug === (spec.services?.[0]?.instance_size_slug ?? SIZES[0]?.slug));
  const count = spec.services?.[0]?.instance_count ?? 1;
  return {
    status: 200,
    body: {
      app_is_static: false,
      app_name_available: !taken,
      spec,
      app_cost: Number(size?.usd_per_month) * count,
    },
  };
}

/** What is refused of a spec, or nothing. */
function problemOf(spec: SpecJson | undefined, state: DigitalOceanState): Answer | undefined {
  if (!spec || !NAME.test(spec.name)) return invalid("spec.name: invalid");
  if (spec.region !== undefined && !REGIONS.includes(spec.region))
    return invalid(`spec.region: "${spec.region}" is not a region`);
  for (const { image, envs = [], instance_size_slug, instance_count = 1, autoscaling } of spec.services ??
    []) {
    if (image?.registry_type === "DOCR" && image.registry)
      return invalid("image.registry must be empty for DOCR");
    if (image?.tag && image.digest) return invalid("image: tag and digest exclude each other");
    if (image?.registry_type === "DOCR" && state.registries.length === 0 && image.digest)
      return invalid("image: no registry");
    if (new Set(envs.map(({ key }) => key)).size !== envs.length) return invalid("envs: duplicate key");
    const size = SIZES.find(({ slug }) => slug === (instance_size_slug ?? SIZES[0]?.slug));
    if (!size) return invalid("instance_size_slug: unknown");
    if (size.single_instance_only && instance_count > 1)
      return invalid("instance_count: this size allows one instance");
    if (autoscaling && !size.scalable) return invalid("autoscaling: this size cannot");
  }
  return undefined;
}

function deployed(deployment: Parameters<typeof deploymentJson>[0]): Answer {
  return { status: 200, body: { deployment: deploymentJson(deployment) } };
}

function page(all: Json[], key: string, query: URLSearchParams): Answer {
  const size = Number(query.get("per_page") ?? 20);
  const from = (Number(query.get("page") ?? 1) - 1) * size;
  return {
    status: 200,
    body: { [key]: all.slice(from, from + size), links: {}, meta: { total: all.length } },
  };
}

export { isGoingOn };
