// @long
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect } from "vitest";
import appRunnerPlatform from "../../src/plugins/platforms/app-runner/platform.ts";
import ecsExpressPlatform from "../../src/plugins/platforms/aws-ecs-express/platform.ts";
import { requirement } from "../_require.ts";
import { ONE as AWS_IMAGE, awsHarness } from "./aws/harness.ts";
import { cloudRunHarness, deploy, secret, specOf } from "./google/harness.ts";

const run = promisify(execFile);
const home = mkdtempSync(join(tmpdir(), "svc-clients-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe("resources that our clients created, as the providers' own tools see them", () => {
  requirement("aws").it(
    "aws reads the services, secrets and roles of a deployment",
    async () => {
      const at = await awsHarness();
      const aws = async (...args: string[]) => {
        const env = { ...process.env, ...at.cloud.env, AWS_DEFAULT_REGION: "us-east-1", HOME: home };
        const { stdout } = await run("aws", [...args, "--output", "json"], { env });
        return JSON.parse(stdout) as Record<string, unknown>;
      };
      try {
        const express = await ecsExpressPlatform.connect(at.target({}), at.tools());
        const secrets = await express.putSecrets({ KEY: secret("a-value") });
        const released = await deploy(express, specOf(AWS_IMAGE, { secrets }));
        const runner = await appRunnerPlatform.connect(at.target({}), at.tools());
        await deploy(runner, specOf(AWS_IMAGE, { secrets }));

        const services = await aws("apprunner", "list-services");
        const listed = await aws("secretsmanager", "list-secrets", "--filters", "Key=name,Values=hello-dev/");
        const described = await aws(
          "ecs",
          "describe-express-gateway-service",
          "--service-arn",
          released?.id ?? "",
        );
        const role = await aws("iam", "get-role", "--role-name", "hello-dev-us-east-1-exec");

        expect(services).toMatchObject({
          ServiceSummaryList: [{ ServiceName: "hello-dev", Status: "RUNNING" }],
        });
        expect(listed).toMatchObject({ SecretList: [{ Name: "hello-dev/KEY" }] });
        expect(described).toMatchObject({ service: { status: { statusCode: "ACTIVE" } } });
        expect(role).toMatchObject({ Role: { RoleName: "hello-dev-us-east-1-exec" } });
      } finally {
        await at.close();
      }
    },
    180_000,
  );

  requirement("gcloud").it(
    "gcloud reads the secrets and the repository of a deployment",
    async () => {
      const at = await cloudRunHarness();
      const gcloud = async (...args: string[]) => {
        const env = {
          ...process.env,
          ...at.emulator.env,
          CLOUDSDK_CONFIG: home,
          CLOUDSDK_CORE_DISABLE_PROMPTS: "1",
        };
        const { stdout } = await run("gcloud", [...args, "--project", "demo-project", "--format", "json"], {
          env,
        });
        return JSON.parse(stdout) as Record<string, unknown>;
      };
      try {
        const session = await at.connect();
        await session.prepare?.();
        await session.putSecrets({ KEY: secret("a-value") });

        const described = await gcloud("secrets", "describe", "hello-dev-KEY");
        const repository = await gcloud(
          "artifacts",
          "repositories",
          "describe",
          "agent-services",
          "--location",
          "us-central1",
        );

        expect(described).toMatchObject({ labels: { "managed-by": "svc", "svc-service": "hello" } });
        expect(repository).toMatchObject({ format: "DOCKER" });
      } finally {
        await at.close();
      }
    },
    180_000,
  );
});
