import type { Answer, Received } from "../http-server.ts";
import { exists, invalid, notFound, refuse } from "./error.ts";
import type { GoogleState, Json } from "./state.ts";

export interface StoredDomain {
  readonly routeName: string;
  readonly resource: Json;
  /** Reads until its records are known. */
  reads: number;
  /** Its records lead here, and it has a certificate. */
  reached?: boolean;
}

/** Domain mappings of Cloud Run's first interface. */
export function domainsApi(
  state: GoogleState,
  rest: string,
  { method, query }: Received,
  body: Json,
): Answer {
  if (state.switches.noDomainMappings)
    return refuse(501, "UNIMPLEMENTED", `Domain mappings are not available in region ${state.region}`);
  if (state.switches.domainsDenied)
    return refuse(403, "PERMISSION_DENIED", "The caller does not have permission");
  if (rest === "/authorizeddomains")
    return { status: 200, body: { domains: state.verifiedDomains.map((id) => ({ id })) } };
  if (rest === "/domainmappings") return method === "POST" ? create(state, body) : list(state, query);
  const name = rest.slice("/domainmappings/".length);
  if (!state.domains.has(name)) return notFound();
  if (method !== "DELETE") return notFound();
  state.domains.delete(name);
  return { status: 200, body: { status: "Success" } };
}

/** One a page, so that a client that reads only one page is found. */
function list(state: GoogleState, query: URLSearchParams): Answer {
  const from = Number(query.get("continue") ?? 0);
  const items = [...state.domains].map(([name, domain]) => json(state, name, domain));
  const next = from + 1 < items.length ? { continue: String(from + 1) } : {};
  return {
    status: 200,
    body: { kind: "DomainMappingList", items: items.slice(from, from + 1), metadata: next },
  };
}

function create(state: GoogleState, body: Json): Answer {
  const { name = "", namespace } = body.metadata as { name?: string; namespace?: string };
  const { routeName = "" } = body.spec as { routeName?: string };
  if (![state.project, state.number].includes(namespace ?? "")) return invalid("metadata.namespace");
  if (!state.services.has(routeName)) return invalid(`spec.routeName: Route ${routeName} does not exist`);
  if (state.domains.has(name)) return exists();
  const made: StoredDomain = { routeName, resource: body, reads: 2 };
  state.domains.set(name, made);
  return { status: 200, body: json(state, name, made) };
}

function json(state: GoogleState, name: string, domain: StoredDomain): Json {
  const verified = state.verifiedDomains.some((one) => name === one || name.endsWith(`.${one}`));
  const known = domain.reads-- <= 0;
  const condition = !verified
    ? {
        status: "False",
        reason: "PermissionDenied",
        message: `Caller is not authorized to administer the domain '${name}'.`,
      }
    : domain.reached
      ? { status: "True" }
      : { status: "Unknown", reason: "CertificatePending", message: "Certificate issuance pending." };
  const records = [{ name: name.split(".")[0], type: "CNAME", rrdata: "ghs.googlehosted.com." }];
  return {
    ...domain.resource,
    status: {
      conditions: [{ type: "Ready", ...condition }],
      mappedRouteName: domain.routeName,
      ...(known && verified ? { resourceRecords: records } : {}),
    },
  };
}
