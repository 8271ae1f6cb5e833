import * as v from "valibot";
import { option } from "../../../core/base/option.ts";
import { DeployError } from "../../../deploy/errors.ts";
import type { Release } from "../../../deploy/platform.ts";
import { changesOf, type FieldChange } from "../../../deploy/spec-changes.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { pollUntil } from "./poll.ts";

/** Takes the domains of a service away. */
export const NO_DOMAIN = "none";

/** The option of a cloud that gets the certificate itself. */
export const DOMAIN_OPTION = option.ruled(
  v.regex(
    /^(?:none|(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,})$/,
    'must be a domain in lower-case letters such as agents.example.com, or "none"',
  ),
  'Domain of the service, with a certificate; "none" for none',
);

export function isDomain(option: string | undefined): option is string {
  return option !== undefined && option !== NO_DOMAIN;
}

/** A domain that a service has at its cloud. */
export interface ServiceDomain {
  readonly name: string;
  /** Whether it leads to the service, with a certificate. */
  readonly active: boolean;
  /** Records that its DNS needs, such as `CNAME agents.example.com ghs.googlehosted.com.`; none while they are unknown. */
  readonly records: readonly string[];
  /** Why the cloud gave up on it. */
  readonly failure?: string | undefined;
}

/** How a cloud reads and changes the domains of one service. */
export interface DomainCalls {
  /** Undefined where the caller may not see them. */
  list(): Promise<readonly ServiceDomain[] | undefined>;
  /** Has no effect on a domain that the service has. */
  add(name: string): Promise<void>;
  remove(name: string): Promise<void>;
}

/** What the option would change: its domain is added to those that the service has, and `none` removes all. */
export async function domainChanges(wanted: string | undefined, calls: DomainCalls): Promise<FieldChange[]> {
  const live = wanted === undefined ? undefined : await calls.list();
  if (wanted === undefined || live === undefined) return [];
  const names = live.filter(({ failure }) => failure === undefined).map(({ name }) => name);
  const next = wanted === NO_DOMAIN ? [] : [...new Set([...names, wanted])];
  const [from, to] = [names, next].map((list) => (list.length === 0 ? null : list.join(", ")));
  return changesOf([["domain", from, to]]);
}

/** Gives a service its domain, and says what its DNS needs until it leads there. */
export async function ensureDomain(
  { tools, wanted }: { tools: DeployTools; wanted: string | undefined },
  calls: DomainCalls,
): Promise<void> {
  if (wanted === undefined) return;
  const live = await calls.list();
  if (live === undefined) {
    tools.report(`this login may not see the domains of the service: none was checked or changed`);
    return;
  }
  const unwanted = live.filter(
    ({ name, failure }) => wanted === NO_DOMAIN || (name === wanted && failure !== undefined),
  );
  for (const { name } of unwanted)
    await tools.journal({ step: `domain ${name} removed` }, () => calls.remove(name));
  if (wanted === NO_DOMAIN) return;
  if (!live.some(({ name, failure }) => name === wanted && failure === undefined))
    await tools.journal({ step: `domain ${wanted}` }, () => calls.add(wanted));
  const domain = await pollUntil({
    tools,
    every: 2000,
    read: async () => (await calls.list())?.find(({ name }) => name === wanted),
    done: (found) =>
      found !== undefined && (found.active || found.records.length > 0 || found.failure !== undefined),
  });
  if (domain?.failure !== undefined)
    throw new DeployError("failed", `The service did not get the domain ${wanted}`, {
      detail: domain.failure,
      outcome: "The release itself is done",
      fix: "Correct the cause and deploy again",
    });
  if (domain?.active === false)
    tools.report(
      `${wanted} does not lead to the service yet: add ${domain.records.join(" and ")} to its DNS. Its certificate then comes by itself. After that, deploy again: the service then uses this address`,
    );
}

/** Removes all domains of a service. */
export function removeDomains(tools: DeployTools, calls: DomainCalls): Promise<void> {
  return ensureDomain({ tools, wanted: NO_DOMAIN }, calls);
}

/**
 * The public URL that a release gets from the domains of its service: the wanted one as soon as it is active, until then the
 * one that it has.
 */
export async function domainUrl(
  wanted: string | undefined,
  told: string | undefined,
  calls: DomainCalls,
): Promise<string | undefined> {
  if (!isDomain(wanted)) return undefined;
  const live = await calls.list();
  const urls = (live ?? []).filter(({ active }) => active).map(({ name }) => `https://${name}`);
  return urls.find((url) => url === `https://${wanted}`) ?? urls.find((url) => url === told);
}

/** A release with its domain as its address, where the service itself uses it. */
export async function withDomain<R extends Release | undefined>(
  release: R,
  wanted: string | undefined,
  calls: DomainCalls,
): Promise<R> {
  const told = release?.env?.SERVICE_PUBLIC_URL;
  if (release === undefined || told === undefined || told === release.url || wanted === undefined)
    return release;
  const isOwn = (await calls.list())?.some(({ name }) => told === `https://${name}`);
  return isOwn ? { ...release, url: told } : release;
}
