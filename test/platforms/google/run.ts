import type { Answer, Received } from "../http-server.ts";
import { aborted, exists, invalid, notFound, refuse } from "./error.ts";
import { readPolicy, writePolicy } from "./policy.ts";
import { domainsApi } from "./run-domains.ts";
import { hostOf, isNewRevision, rollOut, snapshot } from "./run-rollout.ts";
import { normalised, templateProblem, withoutDefaults } from "./run-template.ts";
import type { GoogleState, Json, StoredService } from "./state.ts";
import { etagOf, newPolicy, operationJson, readOperation, startOperation } from "./state.ts";

const OUTPUT_ONLY = new Set([
  "uri",
  "urls",
  "trafficStatuses",
  "conditions",
  "terminalCondition",
  "reconciling",
  "observedGeneration",
  "generation",
  "latestCreatedRevision",
  "latestReadyRevision",
]);

/** Cloud Run's v2 interface: services, revisions, operations and builds. */
export async function runApi(state: GoogleState, request: Received, body: Json): Promise<Answer> {
  const { method, path, query } = request;
  const parent = `/v2/projects/${state.project}/locations/${state.region}`;
  if (path === `/v1/projects/${state.project}/locations`)
    return {
      status: 200,
      body: { locations: ["us-central1", "us-east1", "europe-west1"].map((id) => ({ locationId: id })) },
    };
  const first = `/v1/projects/${state.project}/locations/${state.region}`;
  if (/^\/(domainmappings|authorizeddomains)/.test(path.replace(first, "")))
    return domainsApi(state, path.slice(first.length), request, body);
  if (!path.startsWith(parent))
    return refuse(403, "PERMISSION_DENIED", `Permission denied on '${path}' (or resource may not exist).`);
  const rest = path.slice(parent.length);
  if (rest.startsWith("/operations/")) {
    const operation = await readOperation(state, path.slice("/v2/".length));
    return operation ? { status: 200, body: operation } : notFound();
  }
  if (rest === "/services" && method === "POST") return create(state, query, body);
  if (rest === "/services") return list(state, query);
  const match = /^\/services\/([^/:]+)(?::(\w+)|\/revisions(?:\/([^/]+))?)?$/.exec(rest);
  const id = match?.[1];
  const service = id === undefined ? undefined : state.services.get(id);
  if (!service || id === undefined) return notFound();
  await tick(service);
  if (match?.[2] === "getIamPolicy") return readPolicy(service.policy);
  if (match?.[2] === "setIamPolicy") return writePolicy(state, service, body);
  if (rest.includes("/revisions")) return revisions(service, match?.[3]);
  if (method === "GET") return { status: 200, body: snapshot(service) };
  if (method === "PATCH") return update(state, service, query, body);
  if (method === "DELETE") return remove(state, id, service, query);
  return notFound();
}

/** Two services a page, so that a client that reads only one page is found. */
function list(state: GoogleState, query: URLSearchParams): Answer {
  const from = Number(query.get("pageToken") ?? 0);
  const services = [...state.services.values()].map(snapshot);
  const next = from + 2 < services.length ? { nextPageToken: String(from + 2) } : {};
  return { status: 200, body: { services: services.slice(from, from + 2), ...next } };
}

async function tick(service: StoredService): Promise<void> {
  const { rollout } = service;
  if (rollout && rollout.reads-- <= 0) await rollout.finish();
}

function create(state: GoogleState, query: URLSearchParams, body: Json): Answer {
  const id = query.get("serviceId") ?? "";
  if (!/^[a-z][a-z0-9-]{0,48}$/.test(id) || id.endsWith("-")) return invalid(`service_id: invalid: "${id}"`);
  if (state.services.has(id)) return exists();
  const problem =
    templateProblem(body.template as Json) ?? accessProblem(state, body) ?? scalingProblem(body);
  if (problem) return problem;
  const name = `projects/${state.project}/locations/${state.region}/services/${id}`;
  const service: StoredService = {
    resource: {
      ...input(body),
      name,
      etag: etagOf(state),
      generation: "0",
      template: normalised(state, body.template as Json),
    },
    revisions: [],
    created: 0,
    policy: newPolicy(state),
    rollout: undefined,
  };
  if (query.get("validateOnly") === "true")
    return {
      status: 200,
      body: {
        name: `${name.split("/services")[0]}/operations/validated`,
        done: true,
        response: snapshot(service),
      },
    };
  state.services.set(id, service);
  // Both addresses are reported immediately, long before anything responds there.
  service.resource.uri = `https://${hostOf(state, service)}`;
  service.resource.urls = [`https://${id}-${state.number}.${state.region}.run.app`, service.resource.uri];
  return { status: 200, body: operationJson(rollOut(state, service, true)) };
}

function update(state: GoogleState, service: StoredService, query: URLSearchParams, body: Json): Answer {
  if (body.etag !== undefined && body.etag !== service.resource.etag) return aborted();
  if (service.rollout) return aborted();
  const mask = query.get("updateMask")?.split(",");
  const given = input(body);
  const { resource } = service;
  const template = (
    mask === undefined || mask.includes("template") ? given.template : resource.template
  ) as Json;
  const problem =
    templateProblem(template) ??
    clash(service, template) ??
    accessProblem(state, body) ??
    trafficProblem(service, given) ??
    scalingProblem(body);
  if (problem) return problem;
  const wanted = normalised(state, template);
  const fresh = isNewRevision(resource.template as Json, wanted) || query.get("forceNewRevision") === "true";
  const changed: Json =
    mask === undefined ? { ...blank(resource), ...given } : { ...resource, ...pick(given, mask) };
  changed.template = wanted;
  if (query.get("validateOnly") === "true")
    return {
      status: 200,
      body: {
        name: `${(resource.name as string).split("/services")[0]}/operations/validated`,
        done: true,
        response: changed,
      },
    };
  for (const key of Object.keys(resource)) if (!(key in changed)) delete resource[key];
  Object.assign(resource, changed);
  return { status: 200, body: operationJson(rollOut(state, service, fresh)) };
}

function remove(state: GoogleState, id: string, service: StoredService, query: URLSearchParams): Answer {
  const etag = query.get("etag");
  if (etag !== null && etag !== service.resource.etag) return aborted();
  if (service.rollout) return aborted();
  service.resource.etag = etagOf(state);
  const operation = startOperation(
    state,
    (service.resource.name as string).split("/services/")[0] ?? "",
    async () => {
      state.services.delete(id);
      await Promise.all(service.revisions.map(({ instance }) => instance?.stop()));
      return { response: snapshot(service) };
    },
  );
  service.resource.deleteTime = new Date(0).toISOString();
  // Read-only clients see it go as well.
  service.rollout = { reads: 4, finish: async () => void (await readOperation(state, operation.name)) };
  return { status: 200, body: operationJson(operation) };
}

function revisions(service: StoredService, name: string | undefined): Answer {
  if (name === undefined)
    return { status: 200, body: { revisions: service.revisions.map(({ resource }) => resource) } };
  const found = service.revisions.find((revision) => revision.name === name);
  return found ? { status: 200, body: found.resource } : notFound();
}

/** A revision name that is taken, by a different configuration. */
function clash(service: StoredService, template: Json): Answer | undefined {
  const name = template.revision as string | undefined;
  if (name === undefined || !service.revisions.some((revision) => revision.name === name)) return undefined;
  return refuse(
    409,
    "ALREADY_EXISTS",
    `Revision named '${name}' with different configuration already exists.`,
  );
}

function accessProblem(state: GoogleState, body: Json): Answer | undefined {
  if (!body.invokerIamDisabled || !state.switches.forbidInvokerCheckOff) return undefined;
  return refuse(400, "FAILED_PRECONDITION", "Constraint constraints/run.managed.requireInvokerIam violated.");
}

function trafficProblem(service: StoredService, given: Json): Answer | undefined {
  const targets = given.traffic as { type?: string; revision?: string; percent?: number }[] | undefined;
  if (!targets) return undefined;
  const sum = targets.reduce((total, target) => total + (target.percent ?? 0), 0);
  if (sum !== 100) return invalid(`traffic: percents must sum to 100, got ${sum}`);
  for (const { type, revision } of targets) {
    if (type !== "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION") continue;
    if (!service.revisions.some(({ name }) => name === revision))
      return invalid(`traffic: revision '${revision}' not found`);
  }
  return undefined;
}

function scalingProblem(body: Json): Answer | undefined {
  const { minInstanceCount = 0, maxInstanceCount } = (body.scaling ?? {}) as Record<
    string,
    number | undefined
  >;
  if (maxInstanceCount !== undefined && maxInstanceCount < minInstanceCount)
    return invalid("scaling: max below min");
  return undefined;
}

function input(body: Json): Json {
  const given = Object.fromEntries(
    Object.entries(body).filter(([key]) => !OUTPUT_ONLY.has(key) && key !== "etag" && key !== "name"),
  );
  return given.scaling === undefined ? given : { ...given, scaling: withoutDefaults(given.scaling as Json) };
}

/** What is left of a service when a patch without a mask replaces it. */
function blank(resource: Json): Json {
  return Object.fromEntries(
    Object.entries(resource).filter(([key]) => OUTPUT_ONLY.has(key) || key === "name" || key === "etag"),
  );
}

function pick(given: Json, mask: readonly string[]): Json {
  return Object.fromEntries(mask.map((key) => [key, given[key]]));
}
