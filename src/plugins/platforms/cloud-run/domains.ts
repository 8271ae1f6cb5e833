import { DeployError } from "../../../deploy/errors.ts";
import { isCloudError, isTransient } from "../cloud/cloud-error.ts";
import { type DomainCalls, isDomain, type ServiceDomain } from "../cloud/domain.ts";
import type { Context } from "./context.ts";
import { isNotFound } from "./google-error.ts";

interface DomainMapping {
  readonly metadata?: { readonly name?: string };
  readonly spec?: { readonly routeName?: string };
  readonly status?: {
    readonly conditions?: readonly {
      readonly type?: string;
      readonly status?: string;
      readonly reason?: string;
      readonly message?: string;
    }[];
    readonly resourceRecords?: readonly {
      readonly name?: string;
      readonly type?: string;
      readonly rrdata?: string;
    }[];
  };
}

interface Page {
  readonly items?: readonly DomainMapping[];
  readonly metadata?: { readonly continue?: string };
}

/** Domain mappings of a service: resources of Cloud Run's first interface, which have no successor in the second. */
export function domainsOf(context: Context): DomainCalls {
  const list = async () =>
    (await mappings(context))?.filter((one) => isOfService(context, one)).map(toDomain);
  return {
    list,
    async add(name) {
      const google = await context.google();
      await explained(context, () =>
        google.send("run", "POST", `${pathOf(context)}/domainmappings`, {
          body: {
            apiVersion: "domains.cloudrun.com/v1",
            kind: "DomainMapping",
            metadata: { name, namespace: context.project },
            spec: { routeName: context.target.serviceName, certificateMode: "AUTOMATIC" },
          },
          reread: async () => ((await list())?.some((one) => one.name === name) ? {} : undefined),
        }),
      );
    },
    async remove(name) {
      const google = await context.google();
      try {
        await google.send("run", "DELETE", `${pathOf(context)}/domainmappings/${name}`, { idempotent: true });
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    },
  };
}

/** Rejects a domain that the service cannot get. */
export async function checkDomain(context: Context): Promise<void> {
  const wanted = context.target.flags.domain;
  if (!isDomain(wanted)) return;
  const all = await mappings(context);
  const known = all?.find(({ metadata }) => metadata?.name === wanted);
  const outcome = "Nothing was changed";
  if (known !== undefined && !isOfService(context, known))
    throw new DeployError("bad_config", `${wanted} already leads to the service "${known.spec?.routeName}"`, {
      outcome,
      fix: `Remove it there first: gcloud beta run domain-mappings delete --domain ${wanted} --region ${context.target.region}. The domain of one environment is written under "environments" in deploy.yaml`,
    });
  if (all === undefined || known !== undefined) return;
  const verified = await verifiedDomains(context);
  if (verified === undefined || verified.some((one) => wanted === one || wanted.endsWith(`.${one}`))) return;
  throw new DeployError("bad_config", `Cloud Run does not know that ${wanted} is yours`, {
    detail: `Verified for this login: ${verified.join(", ") || "no domain"}`,
    outcome,
    fix: `Run gcloud domains verify ${wanted.split(".").slice(-2).join(".")}; a service account that deploys is added as an owner in Google Search Console`,
  });
}

/** Domains that the caller has shown to own; undefined if they cannot be read. */
async function verifiedDomains(context: Context): Promise<string[] | undefined> {
  const google = await context.google();
  const pages = google.pages<{ domains?: { id?: string }[] }>("run", `${pathOf(context)}/authorizeddomains`);
  return seen(async () => {
    const found: string[] = [];
    for await (const { domains = [] } of pages) found.push(...domains.flatMap(({ id }) => id ?? []));
    return found;
  });
}

/** All of the region; undefined if they cannot be read: no permission but a role of the whole project includes them. */
async function mappings(context: Context): Promise<DomainMapping[] | undefined> {
  const google = await context.google();
  const found: DomainMapping[] = [];
  let next: string | undefined;
  do {
    const query = { limit: 100, continue: next };
    const page = await seen(() =>
      explained(context, () => google.get<Page>("run", `${pathOf(context)}/domainmappings`, query)),
    );
    if (page === undefined) return undefined;
    found.push(...(page.items ?? []));
    next = page.metadata?.continue || undefined;
  } while (next !== undefined);
  return found;
}

async function seen<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (isCloudError(error) && error.status === 403) return undefined;
    throw error;
  }
}

/** A region without domain mappings says so in its own words. */
async function explained<T>(context: Context, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const final = isCloudError(error) && error.status >= 400 && error.status !== 403 && !isTransient(error);
    if (!final) throw error;
    const { flags, region } = context.target;
    throw new DeployError("failed", `Cloud Run did not map ${flags.domain} in ${region}`, {
      detail: error.message,
      fix: "A load balancer works in every region, also where domain mappings are not offered: set it up, and tell the service with --public-url in place of --domain",
      cause: error,
    });
  }
}

const pathOf = ({ project, target }: Context) => `/v1/projects/${project}/locations/${target.region}`;

function isOfService({ target }: Context, { spec }: DomainMapping): boolean {
  return spec?.routeName === target.serviceName;
}

function toDomain({ metadata, status }: DomainMapping): ServiceDomain {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  const failed = ready?.status === "False" && ready.reason !== "CertificatePending";
  return {
    name: metadata?.name ?? "",
    active: ready?.status === "True",
    records: (status?.resourceRecords ?? []).map(
      ({ type, name, rrdata }) => `${type} ${name || "@"} ${rrdata}`,
    ),
    failure: failed ? (ready.message ?? ready.reason ?? "Cloud Run gave no reason") : undefined,
  };
}
