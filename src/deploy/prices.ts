import type { Estimate } from "./platform.ts";

/** A price as its provider lists it. */
export interface Price {
  /** US dollars, without tax. */
  readonly usd: number;
  /** What is paid for, such as `vCPU-hour`. */
  readonly unit: string;
  /** The region that it is listed for: others may cost more. */
  readonly region: string;
  /** Month for which it is known. */
  readonly date: string;
  /** The provider's page that lists it. */
  readonly source: string;
}

const CLOUD_RUN = {
  region: "us-central1",
  date: "January 2025",
  source: "https://cloud.google.com/run/pricing",
};
const FARGATE = {
  region: "us-east-1",
  date: "March 2026",
  source: "https://aws.amazon.com/fargate/pricing/",
};
const BALANCER = {
  region: "us-east-1",
  date: "January 2025",
  source: "https://aws.amazon.com/elasticloadbalancing/pricing/",
};
const APP_RUNNER = {
  region: "us-east-1",
  date: "2024",
  source: "https://aws.amazon.com/apprunner/pricing/",
};
const S3 = { region: "us-east-1", date: "early 2026", source: "https://aws.amazon.com/s3/pricing/" };
const GCS = {
  region: "us-central1",
  date: "early 2026",
  source: "https://cloud.google.com/storage/pricing",
};

/** Every list price that an estimate is made from. docs/deploy-clouds.md shows the same table. */
export const PRICES = {
  cloudRunCpu: { usd: 0.000018, unit: "vCPU-second, instance-based billing", ...CLOUD_RUN },
  cloudRunMemory: { usd: 0.000002, unit: "GiB-second, instance-based billing", ...CLOUD_RUN },
  cloudRunBusyCpu: { usd: 0.000024, unit: "vCPU-second of requests", ...CLOUD_RUN },
  cloudRunBusyMemory: { usd: 0.0000025, unit: "GiB-second of requests", ...CLOUD_RUN },
  cloudRunIdle: {
    usd: 0.0000025,
    unit: "vCPU-second or GiB-second of an idle minimum instance",
    ...CLOUD_RUN,
  },
  fargateCpu: { usd: 0.04048, unit: "vCPU-hour, x86", ...FARGATE },
  fargateMemory: { usd: 0.004445, unit: "GB-hour, x86", ...FARGATE },
  fargateArmCpu: { usd: 0.03238, unit: "vCPU-hour, Arm", ...FARGATE },
  fargateArmMemory: { usd: 0.00356, unit: "GB-hour, Arm", ...FARGATE },
  loadBalancer: { usd: 0.0225, unit: "hour of an Application Load Balancer", ...BALANCER },
  appRunnerCpu: { usd: 0.064, unit: "vCPU-hour of an active instance", ...APP_RUNNER },
  appRunnerMemory: { usd: 0.007, unit: "GB-hour", ...APP_RUNNER },
  s3Write: { usd: 0.005, unit: "1,000 writes", ...S3 },
  s3Read: { usd: 0.0004, unit: "1,000 reads", ...S3 },
  s3Storage: { usd: 0.023, unit: "GB a month", ...S3 },
  gcsWrite: { usd: 0.005, unit: "1,000 writes", ...GCS },
  gcsRead: { usd: 0.0004, unit: "1,000 reads", ...GCS },
  gcsStorage: { usd: 0.02, unit: "GB a month", ...GCS },
} as const satisfies Readonly<Record<string, Price>>;

/** Hours of a month. */
export const MONTH_HOURS = 730;

/** An estimate from list prices, with their dates and sources; `region` is where the service runs. */
export function estimatedFrom(
  prices: readonly Price[],
  text: string,
  region?: string,
): NonNullable<Estimate["cost"]> {
  const distinct = (key: "region" | "date" | "source") =>
    [...new Set(prices.map((price) => price[key]))].join(" and ");
  const listed = distinct("region");
  const elsewhere = region === undefined || region === listed ? "" : `; those of ${region} may differ`;
  return {
    text,
    date: `${distinct("date")} in ${listed}${elsewhere}`,
    source: distinct("source"),
  };
}

/** An estimated cost for people: none is shown without the date and the source of its prices. */
export function costText({ text, date, source }: NonNullable<Estimate["cost"]>): string {
  return `${text} (prices of ${date}: ${source})`;
}
