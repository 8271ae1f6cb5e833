import { crc32c } from "../../../src/plugins/platforms/cloud-run/crc32c.ts";
import type { Answer, Received } from "../http-server.ts";
import { exists, invalid, notFound } from "./error.ts";
import { readPolicy, writePolicy } from "./policy.ts";
import type { GoogleState, Json } from "./state.ts";
import { newPolicy, operationJson, readOperation, startOperation } from "./state.ts";

export async function artifactRegistryApi(
  state: GoogleState,
  request: Received,
  body: Json,
): Promise<Answer> {
  const parent = `/v1/projects/${state.project}/locations/${state.region}`;
  const operation = await readOperation(state, request.path.slice("/v1/".length));
  if (operation) return { status: 200, body: operation };
  if (request.path === `${parent}/repositories` && request.method === "POST") {
    const id = request.query.get("repositoryId") ?? "";
    if (!/^[a-z][a-z0-9-]{0,62}$/.test(id)) return invalid("repository_id");
    if (state.repositories.has(id)) return exists();
    if (body.format !== "DOCKER") return invalid("format");
    const resource = { ...body, name: `${parent.slice(4)}/repositories/${id}` };
    state.repositories.set(id, resource);
    return {
      status: 200,
      body: operationJson(startOperation(state, parent.slice(4), async () => ({ response: resource }), 1)),
    };
  }
  const found = state.repositories.get(request.path.split("/repositories/")[1] ?? "");
  return found ? { status: 200, body: found } : notFound();
}

export async function secretManagerApi(state: GoogleState, request: Received, body: Json): Promise<Answer> {
  const parent = `/v1/projects/${state.project}/secrets`;
  const { method, path, query } = request;
  if (path === parent && method === "GET")
    return { status: 200, body: { secrets: filtered(state, query.get("filter") ?? "") } };
  if (path === parent && method === "POST") {
    const id = query.get("secretId") ?? "";
    if (!/^[A-Za-z0-9_-]{1,255}$/.test(id)) return invalid("secret_id");
    if (state.secrets.has(id)) return exists();
    if (!body.replication) return invalid("replication is required");
    const resource: Json = { ...body, name: `projects/${state.number}/secrets/${id}`, etag: newEtag() };
    state.secrets.set(id, { resource, versions: [], policy: newPolicy(state) });
    return { status: 200, body: resource };
  }
  const match = /^\/([^/:]+)(?::(\w+)|\/versions\/(\w+)(:access)?)?$/.exec(path.slice(parent.length));
  const id = match?.[1] ?? "";
  const secret = state.secrets.get(id);
  if (!secret) return notFound();
  if (match?.[2] === "getIamPolicy") return readPolicy(secret.policy);
  if (match?.[2] === "setIamPolicy") return writePolicy(state, secret, body);
  if (match?.[2] === "addVersion") {
    const { data = "", dataCrc32c } = (body.payload ?? {}) as { data?: string; dataCrc32c?: string };
    if (dataCrc32c !== undefined && dataCrc32c !== String(crc32c(Buffer.from(data, "base64"))))
      return invalid("crc32c");
    if (Buffer.from(data, "base64").length > 65_536) return invalid("payload too large");
    secret.versions.push({ data });
    return {
      status: 200,
      body: { name: `${secret.resource.name}/versions/${secret.versions.length}`, state: "ENABLED" },
    };
  }
  if (match?.[3]) {
    const number = match[3] === "latest" ? secret.versions.length : Number(match[3]);
    const version = secret.versions[number - 1];
    if (!version) return notFound();
    const name = `${secret.resource.name}/versions/${number}`;
    if (match[4]) return { status: 200, body: { name, payload: version } };
    return { status: 200, body: { name, state: "ENABLED" } };
  }
  if (method === "GET") return { status: 200, body: secret.resource };
  if (method === "PATCH") {
    if (body.etag !== undefined && body.etag !== secret.resource.etag) return otherEtag();
    for (const key of (query.get("updateMask") ?? "").split(",")) secret.resource[key] = body[key];
    secret.resource.etag = newEtag();
    return { status: 200, body: secret.resource };
  }
  if (method === "DELETE") {
    const etag = query.get("etag");
    if (etag !== null && etag !== secret.resource.etag) return otherEtag();
    state.secrets.delete(id);
    return { status: 200, body: {} };
  }
  return notFound();
}

const otherEtag = (): Answer => ({
  status: 400,
  body: { error: { code: 400, message: "The etag does not match", status: "FAILED_PRECONDITION" } },
});

let etags = 0;
const newEtag = () => `"${(++etags).toString(16)}"`;

function filtered(state: GoogleState, filter: string): Json[] {
  const pairs = [...filter.matchAll(/labels\.([\w-]+)=([\w-]+)/g)];
  return [...state.secrets.values()]
    .map(({ resource }) => resource)
    .filter(({ labels }) =>
      pairs.every(([, key, value]) => (labels as Json | undefined)?.[key ?? ""] === value),
    );
}

export async function serviceUsageApi(state: GoogleState, request: Received, body: Json): Promise<Answer> {
  const operation = await readOperation(state, request.path.slice("/v1/".length));
  if (operation) return { status: 200, body: operation };
  if (!request.path.startsWith(`/v1/projects/${state.project}/services`)) return notFound();
  if (request.path.endsWith(":batchEnable")) {
    const ids = body.serviceIds as string[];
    if (ids.length > 20) return invalid("at most 20 services");
    return {
      status: 200,
      body: operationJson(
        startOperation(state, "", async () => {
          for (const id of ids) state.apis.add(id);
          return { response: { services: ids.map((name) => ({ config: { name }, state: "ENABLED" })) } };
        }),
      ),
    };
  }
  const name = request.path.split("/").at(-1) ?? "";
  return {
    status: 200,
    body: {
      name: `projects/${state.number}/services/${name}`,
      parent: `projects/${state.number}`,
      state: state.apis.has(name) ? "ENABLED" : "DISABLED",
    },
  };
}

export async function iamApi(state: GoogleState, request: Received, body: Json): Promise<Answer> {
  if (request.path === `/v3/projects/${state.project}`)
    return { status: 200, body: { name: `projects/${state.number}`, projectId: state.project } };
  if (!request.path.endsWith(":testIamPermissions")) return notFound();
  const asked = body.permissions as string[];
  if (asked.length > 100) return invalid("at most 100 permissions");
  return { status: 200, body: { permissions: asked.filter((permission) => !state.lacking.has(permission)) } };
}

export async function billingApi(state: GoogleState): Promise<Answer> {
  return { status: 200, body: { projectId: state.project, billingEnabled: state.switches.billing } };
}

export async function loggingApi(state: GoogleState, _request: Received, body: Json): Promise<Answer> {
  if (state.switches.unreadableLogs)
    return {
      status: 403,
      body: {
        error: { code: 403, message: "Permission denied for all log views", status: "PERMISSION_DENIED" },
      },
    };
  const filter = String(body.filter ?? "");
  const since = /timestamp>=?"([^"]+)"/.exec(filter)?.[1] ?? "";
  const wanted = /resource\.type="(\w+)"/.exec(filter)?.[1];
  const revision = /revision_name="([^"]+)"/.exec(filter)?.[1];
  const entries = state.logs.filter((entry) => {
    const { type, labels } = entry.resource as { type: string; labels: Record<string, string> };
    const late = filter.includes(">=") ? String(entry.timestamp) >= since : String(entry.timestamp) > since;
    return type === wanted && late && (revision === undefined || labels.revision_name === revision);
  });
  return { status: 200, body: entries.length === 0 ? {} : { entries } };
}
