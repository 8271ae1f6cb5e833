import { messageOf } from "../core/base/error-text.ts";
import { storageFromUrl } from "../core/storage/storage-url.ts";
import { STORAGE_URL } from "./config.ts";
import { DeployError } from "./errors.ts";
import type { Estimate, Finding, Platform, PlatformSession } from "./platform.ts";
import { estimatedFrom, MONTH_HOURS, PRICES, type Price } from "./prices.ts";

/** What the option `storage` says for a bucket that the platform is to create. */
export const CREATE = "create";

/** Reads of an idle service in a month: two each 10 seconds. */
const IDLE_READS = (MONTH_HOURS * 3600 * 2) / 10;

/**
 * What a bucket costs in a month, by the figures in docs/store.md: the reads of an idle service, and the writes of jobs. Undefined
 * where the prices of its provider are not known.
 */
export function bucketCost(storage: string): Estimate["cost"] {
  const { protocol, searchParams } = new URL(storage);
  // Other services with the interface of S3 have other prices.
  if (searchParams.has("endpoint")) return undefined;
  const prices = BUCKET_PRICES[protocol];
  if (prices === undefined) return undefined;
  const [write, read, stored] = prices;
  const idle = (Math.round((IDLE_READS / 1000) * read.usd * 10) / 10).toFixed(2);
  const million = (1000 * write.usd).toFixed(0);
  const text = `the bucket about $${idle} a month for an idle service, $${million} for each million changes of jobs, $${stored.usd} for each GB a month`;
  return estimatedFrom(prices, text);
}

const BUCKET_PRICES: Readonly<Record<string, readonly [Price, Price, Price]>> = {
  "s3:": [PRICES.s3Write, PRICES.s3Read, PRICES.s3Storage],
  "gs:": [PRICES.gcsWrite, PRICES.gcsRead, PRICES.gcsStorage],
};

/** The secrets that a bucket of S3's kind needs where the platform has no identity for it. */
const KEYS = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] as const;

/** One of them opens a container of Azure, which has no identity on the platforms here. */
const AZURE_KEYS = ["AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_KEY"] as const;

/** Rejects what is neither "create" nor the URL of a bucket; its text is not in the message: it may have credentials. */
export function checkStorage(storage: string): void {
  if (storage === CREATE) return;
  try {
    storageFromUrl(storage, { name: "--storage" });
  } catch (error) {
    throw new DeployError("usage", messageOf(error));
  }
  const { protocol, searchParams } = new URL(storage);
  if (protocol === "s3:" && !searchParams.has("region") && !searchParams.has("endpoint"))
    throw new DeployError("usage", `--storage ${storage}: its region is missing`, {
      fix: `Name it: --storage "${storage}?region=eu-central-1"`,
    });
  if (storage.startsWith("file:"))
    throw new DeployError("usage", "--storage must name a bucket: a folder of a container does not last", {
      fix: "Use s3://bucket/prefix?region=eu-central-1, gs://bucket/prefix or azblob://account/container/prefix",
    });
}

/** The URL of the bucket that the option names. */
export async function resolveStorage(
  storage: string,
  {
    platform,
    session,
  }: { readonly platform: Pick<Platform, "name">; readonly session: Pick<PlatformSession, "storageUrl"> },
): Promise<string> {
  if (storage !== CREATE) return storage;
  if (session.storageUrl) return session.storageUrl();
  throw new DeployError("usage", `svc cannot create a bucket on ${platform.name}`, {
    detail: "A bucket is created with keys of its own there",
    fix: "Create one yourself and name it: --storage s3://bucket/prefix?endpoint=https://…, with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY among the secrets; docs/deploy.md shows how",
  });
}

/** What keeps a service from using its bucket as it should, before anything is built. */
export function storageFindings(
  url: string,
  {
    platform,
    session,
    secretNames,
    env,
  }: {
    readonly platform: Pick<Platform<never>, "name" | "ephemeralDisk" | "splitsTraffic">;
    readonly session: Pick<PlatformSession, "hasAccessTo">;
    readonly secretNames: readonly string[];
    readonly env: Readonly<Record<string, string>>;
  },
): Finding[] {
  const found: Finding[] = [];
  const subject = "Bucket";
  const missing = KEYS.filter((name) => !secretNames.includes(name));
  if (url.startsWith("s3:") && !session.hasAccessTo?.(url) && missing.length > 0)
    found.push({
      level: "error",
      subject,
      message: `${platform.name} gives the service no access to ${url}, and the secret ${missing.join(" and ")} is missing`,
      fix: "List both under secrets in deploy.yaml, with a key that may only use this bucket: AWS_ACCESS_KEY_ID: { env: BUCKET_KEY_ID }",
    });
  if (url.startsWith("azblob:") && !AZURE_KEYS.some((name) => secretNames.includes(name)))
    found.push({
      level: "error",
      subject,
      message: `${platform.name} gives the service no access to ${url}, and neither ${AZURE_KEYS.join(" nor ")} is a secret of it`,
      fix: "List one under secrets in deploy.yaml: AZURE_STORAGE_SAS_TOKEN, limited to this container, or AZURE_STORAGE_KEY",
    });
  if (url.startsWith("gs:") && !session.hasAccessTo?.(url))
    found.push({
      level: "warning",
      subject,
      message: `${platform.name} gives the service no access to ${url}: it needs credentials of Google Cloud in its image or by its variables`,
      fix: "Use a bucket with the interface of S3, or deploy to cloud-run",
    });
  if (platform.ephemeralDisk && env.SERVICE_DURABILITY === "disk")
    found.push({
      level: "warning",
      subject,
      message: `SERVICE_DURABILITY is "disk", and ${platform.name} wipes the disk: what was not shipped when an instance ends is lost`,
      fix: "Remove the variable: by default a write is acknowledged once it is in the bucket",
    });
  if (platform.splitsTraffic)
    found.push({
      level: "warning",
      subject,
      message: `while a release replaces another, ${platform.name} sends requests to both for some minutes: the store moves to the new instance with its first one, and the old one answers with 503 from then on`,
      fix: "Deploy when few requests arrive, or store jobs in a database: too many of these answers have the platform roll back, which loses no job",
    });
  return found;
}

/** The bucket that a running service stores its jobs in. */
export function storageOf(
  live: { readonly env?: Readonly<Record<string, string>> } | undefined,
): string | undefined {
  return live?.env?.[STORAGE_URL] || undefined;
}
