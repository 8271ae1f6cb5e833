import { DeployError } from "../../../deploy/errors.ts";
import { isCloudError } from "../cloud/cloud-error.ts";
import { type DomainCalls, NO_DOMAIN, type ServiceDomain } from "../cloud/domain.ts";
import { pollUntil } from "../cloud/poll.ts";
import type { Context } from "./context.ts";
import { findOwnService, MISSING } from "./services.ts";

interface CustomDomain {
  readonly DomainName?: string;
  readonly Status?: string;
  readonly CertificateValidationRecords?: readonly {
    readonly Name?: string;
    readonly Type?: string;
    readonly Value?: string;
  }[];
}

interface Page {
  readonly DNSTarget?: string;
  readonly CustomDomains?: readonly CustomDomain[];
}

/** Custom domains of a service. */
export function domainsOf(context: Context): DomainCalls {
  const { aws, target, tools } = context;
  const read = async () => readDomains(context, (await findOwnService(context))?.ServiceArn);
  return {
    list: async () => (await read()).filter(({ Status }) => Status !== "DELETING").map(toDomain),
    async add(name) {
      // The name is free only after its removal, which takes a while.
      await gone(name, "DELETING");
      const ServiceArn = (await findOwnService(context))?.ServiceArn;
      const input = { ServiceArn, DomainName: name, EnableWWWSubdomain: false };
      const isThere = async () => (await read()).some(({ DomainName }) => DomainName === name);
      try {
        await aws.send("apprunner", "AssociateCustomDomain", input, {
          reread: async () => ((await isThere()) ? {} : undefined),
        });
      } catch (error) {
        if (!isCloudError(error) || error.code !== "InvalidRequestException") throw error;
        throw new DeployError("failed", `App Runner did not associate ${name} with "${target.serviceName}"`, {
          detail: error.message,
          outcome: "The release itself is done",
          fix: `A domain belongs to one service: remove it from the other one first, with --domain ${NO_DOMAIN}. The domain of one environment is written under "environments" in deploy.yaml`,
          cause: error,
        });
      }
    },
    async remove(name) {
      const ServiceArn = (await findOwnService(context))?.ServiceArn;
      const input = { ServiceArn, DomainName: name };
      await aws.find("apprunner", "DisassociateCustomDomain", input, MISSING);
      await gone(name);
    },
  };

  async function gone(name: string, status?: string): Promise<void> {
    await pollUntil({
      tools,
      every: 4000,
      read: async () => (await read()).find(({ DomainName }) => DomainName === name)?.Status,
      done: (found) =>
        found === undefined || found === "DELETE_FAILED" || (status !== undefined && found !== status),
    });
  }
}

type KnownDomain = CustomDomain & { readonly target: string | undefined };

async function readDomains({ aws }: Context, ServiceArn: string | undefined): Promise<KnownDomain[]> {
  if (ServiceArn === undefined) return [];
  const found: KnownDomain[] = [];
  const pages = aws.pages<Page>("apprunner", "DescribeCustomDomains", { ServiceArn }, MISSING);
  for await (const { CustomDomains = [], DNSTarget: target } of pages)
    found.push(...CustomDomains.map((one) => ({ ...one, target })));
  return found;
}

function toDomain({
  DomainName = "",
  Status = "",
  CertificateValidationRecords = [],
  target,
}: KnownDomain): ServiceDomain {
  const certificate = CertificateValidationRecords.map(({ Name, Type, Value }) => `${Type} ${Name} ${Value}`);
  return {
    name: DomainName,
    active: Status === "ACTIVE",
    // Without those of the certificate, which come later, the list would not be whole.
    records: certificate.length === 0 ? [] : [`CNAME ${DomainName} ${target}`, ...certificate],
    failure: Status.endsWith("_FAILED") ? `App Runner reports ${Status}` : undefined,
  };
}
