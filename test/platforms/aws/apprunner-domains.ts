import type { Answer } from "../http-server.ts";
import type { AwsState, Json, RunnerService } from "./state.ts";
import { ok, refuse as refuseAs } from "./state.ts";

export interface RunnerDomain {
  readonly name: string;
  status: string;
  /** Reads until its next state. */
  reads: number;
}

const refuse = (type: string, message: string): Answer => refuseAs(type, message, 400, "Message");
const base = (state: AwsState, service: RunnerService) => ({
  DNSTarget: `${service.id.slice(-10)}.${state.region}.awsapprunner.com`,
  ServiceArn: service.arn,
  VpcDNSTargets: [],
});

/** One a page, so that a client that reads only one page is found. */
export function describeDomains(state: AwsState, service: RunnerService, input: Json): Answer {
  const from = Number(input.NextToken ?? 0);
  if (from === 0) tick(service);
  const next = from + 1 < service.domains.length ? { NextToken: String(from + 1) } : {};
  return ok({
    ...base(state, service),
    CustomDomains: service.domains.slice(from, from + 1).map(json),
    ...next,
  });
}

export function associate(state: AwsState, service: RunnerService, input: Json): Answer {
  const name = String(input.DomainName);
  if (service.status !== "RUNNING")
    return refuse("InvalidStateException", "Service status must be RUNNING to associate a custom domain");
  const taken = state.services.some(
    (one) => one.status !== "DELETED" && one.domains.some((domain) => domain.name === name),
  );
  if (taken) return refuse("InvalidRequestException", `Domain name ${name} is already associated.`);
  if (input.EnableWWWSubdomain !== false && name.split(".").length > 2)
    return refuse("InvalidRequestException", "www subdomain of a subdomain");
  const made: RunnerDomain = {
    name,
    status: state.switches.failDomains ? "CREATE_FAILED" : "CREATING",
    reads: 2,
  };
  service.domains.push(made);
  return ok({ ...base(state, service), CustomDomain: json(made) });
}

export function disassociate(state: AwsState, service: RunnerService, input: Json): Answer {
  const domain = service.domains.find(({ name }) => name === input.DomainName);
  if (!domain) return refuse("ResourceNotFoundException", "no such domain");
  domain.status = "DELETING";
  domain.reads = 2;
  return ok({ ...base(state, service), CustomDomain: json(domain) });
}

function tick(service: RunnerService): void {
  for (const domain of [...service.domains]) {
    if (!["CREATING", "DELETING"].includes(domain.status) || domain.reads-- > 0) continue;
    if (domain.status === "CREATING") domain.status = "PENDING_CERTIFICATE_DNS_VALIDATION";
    else service.domains.splice(service.domains.indexOf(domain), 1);
  }
}

function json({ name, status }: RunnerDomain): Json {
  const known = !["CREATING", "CREATE_FAILED"].includes(status);
  const record = { Name: `_a1b2.${name}.`, Type: "CNAME", Value: "_c3d4.acm-validations.aws." };
  return {
    DomainName: name,
    EnableWWWSubdomain: false,
    Status: status,
    CertificateValidationRecords: known
      ? [{ ...record, Status: status === "ACTIVE" ? "SUCCESS" : "PENDING_VALIDATION" }]
      : [],
  };
}
