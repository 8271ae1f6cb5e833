import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { costText, PRICES, type Price } from "../../src/deploy/prices.ts";
import { bucketCost } from "../../src/deploy/storage.ts";
import * as appRunner from "../../src/plugins/platforms/app-runner/price.ts";
import * as ecsExpress from "../../src/plugins/platforms/aws-ecs-express/price.ts";
import * as cloudRun from "../../src/plugins/platforms/cloud-run/price.ts";

const ALL = Object.values<Price>(PRICES);
const DOCS = readFileSync("docs/deploy-clouds.md", "utf8");

describe("prices", () => {
  it("have each a unit, a region, a date with its year, and the page of their provider", () => {
    for (const { usd, unit, region, date, source } of ALL) {
      expect(usd).toBeGreaterThan(0);
      expect([unit, region]).not.toContain("");
      expect(date).toMatch(/\b20\d\d$/);
      expect(source).toMatch(/^https:\/\/(cloud\.google\.com|aws\.amazon\.com)\//);
    }
  });

  it("are in the documentation, with their date and page", () => {
    for (const { usd, unit, region, date, source } of ALL)
      expect(DOCS.replaceAll(/ +/g, " ")).toContain(
        `| $${plain(usd)} | ${unit} | ${region} | ${date} | ${source} |`,
      );
  });

  it("are in one table: no other text of a deployment has an amount", () => {
    const found = ["src/deploy", "src/cli/deploy", "src/plugins/platforms"].flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: "utf8" })
        .filter(
          (file) => file.endsWith(".ts") && file !== "prices.ts" && !file.endsWith("compiled-templates.ts"),
        )
        // Where a shell script has $1 it is a word of it.
        .filter((file) =>
          /(?:USD|about \$)\s?\d|\$\d+\.\d|\$\d+ a month/.test(readFileSync(join(folder, file), "utf8")),
        ),
    );

    expect(found).toEqual([]);
  });
});

describe("an estimate", () => {
  const estimates = {
    "cloud-run": cloudRun.estimateCost({}, "europe-west1"),
    "cloud-run, the cheap mode": cloudRun.estimateCost({ scaleToZero: true }, "us-central1"),
    "aws-ecs-express": ecsExpress.estimateCost({}, "us-east-1", { live: undefined, architecture: "amd64" }),
    "aws-app-runner": appRunner.estimateCost({}, "eu-west-1", undefined),
    "bucket of S3": { cost: bucketCost("s3://bucket/prefix?region=eu-west-1") },
    "bucket of Cloud Storage": { cost: bucketCost("gs://bucket/prefix") },
  };
  it("of a service with a size says for which one, and for how many", () => {
    expect(estimates["aws-ecs-express"].cost?.text).toContain("for 1 instance with 0.25 vCPU and 512 MiB");
    expect(estimates["aws-app-runner"].cost?.text).toContain("for 1 instance with 1 vCPU and 2 GiB idle");
  });

  for (const [name, { cost }] of Object.entries(estimates))
    it(`names the date, the region and the page of its prices: ${name}`, () => {
      const text = costText(cost!);

      expect(text).toMatch(/\$\d+\.\d\d a month.* \(prices of .*20\d\d in us-\w+-?\d/);
      expect(text).toMatch(/https:\/\/\S+\)$/);
    });

  it("says that another region may cost more", () => {
    expect(estimates["cloud-run"].cost?.date).toBe(
      "January 2025 in us-central1; those of europe-west1 may differ",
    );
    expect(estimates["aws-ecs-express"].cost?.date).toBe("March 2026 and January 2025 in us-east-1");
  });

  it("is lower for Arm, whose tasks cost less", () => {
    const arm = ecsExpress.estimateCost({}, "us-east-1", { live: undefined, architecture: "arm64" });

    expect(estimates["aws-ecs-express"].cost?.text).toMatch(/^about \$25\.44 a month/);
    expect(arm.cost?.text).toMatch(/^about \$23\.63 a month/);
  });

  it("is not made for a bucket whose provider's prices are not known", () => {
    expect(bucketCost("s3://bucket/prefix?endpoint=https://example.com")).toBeUndefined();
    expect(bucketCost("azblob://account/container/prefix")).toBeUndefined();
  });
});

/** Without an exponent. */
function plain(usd: number): string {
  return usd.toFixed(7).replace(/0+$/, "").replace(/\.$/, "");
}
