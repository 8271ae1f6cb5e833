import { checkAws, fromForm } from "../contract/aws.ts";
import { forward } from "../forward.ts";
import type { Answer, Received } from "../http-server.ts";
import { serveHttp } from "../http-server.ts";
import type { ImageRunner, Instance } from "../instances.ts";
import { Recorder } from "../recorder.ts";
import { appRunnerApi } from "./apprunner.ts";
import { ecsApi } from "./ecs.ts";
import { FEDERATED, iamApi, stsApi } from "./identity.ts";
import { s3Api, s3Operation } from "./s3.ts";
import type { AwsState, Json } from "./state.ts";
import { newAwsState, ok, refuse } from "./state.ts";
import { registryApi, secretsApi } from "./vault.ts";

const TARGETS: Readonly<Record<string, string>> = {
  AppRunner: "apprunner",
  AmazonEC2ContainerRegistry_V20150921: "ecr",
  secretsmanager: "secretsmanager",
  AmazonEC2ContainerServiceV20141113: "ecs",
  Logs_20140328: "logs",
};

export interface AwsEmulator {
  readonly state: AwsState;
  readonly recorder: Recorder;
  readonly env: Readonly<Record<string, string>>;
  readonly url: string;
  frontFor(host: string): string | undefined;
  close(): Promise<void>;
}

/** One AWS account and region with App Runner, ECS Express Mode and what they need, strict about what it takes. */
export async function startAws(images: ImageRunner, region?: string): Promise<AwsEmulator> {
  const state = newAwsState(images, region);
  const recorder = new Recorder();
  const server = await serveHttp((request) => answer(state, recorder, request));
  const front = await serveHttp((request) => serveUsers(state, request));
  return {
    state,
    recorder,
    url: server.url,
    env: {
      AWS_ENDPOINT_URL: server.url,
      AWS_ACCESS_KEY_ID: "AKIDEXAMPLE",
      AWS_SECRET_ACCESS_KEY: "lab-secret-access-key",
      AWS_REGION: state.region,
    },
    frontFor: (host) =>
      /\.awsapprunner\.com$|\.on\.aws$/.test(host) || instanceOf(state, host) ? front.url : undefined,
    async close() {
      await Promise.all([server.close(), front.close()]);
    },
  };
}

async function answer(state: AwsState, recorder: Recorder, request: Received): Promise<Answer | undefined> {
  const bucket = s3Operation(request);
  if (bucket !== undefined)
    return recorder.handle({ name: `s3 ${bucket}`, mutating: bucket !== "HeadBucket" }, request, async () =>
      s3Api(state, bucket, request),
    );
  const text = request.raw.toString("utf8");
  const target = request.headers["x-amz-target"];
  const form = target === undefined ? new URLSearchParams(text) : undefined;
  const [prefix = "", named = ""] = target?.split(".") ?? [];
  const service = form ? (form.get("Version") === "2011-06-15" ? "sts" : "iam") : (TARGETS[prefix] ?? "");
  const operation = form?.get("Action") ?? named;
  const input = form ? fromForm(form) : (JSON.parse(text || "{}") as Json);
  const mutating = !/^(Get|List|Describe|Simulate|Filter)/.test(operation);
  const result = await recorder.handle({ name: `${service} ${operation}`, mutating }, request, async () =>
    isForeign(state, operation, request)
      ? refuse("UnrecognizedClientException", "The security token included in the request is invalid.", 403)
      : act(state, service, operation, input),
  );
  const json = result && result.status === 200 && typeof result.body === "object" ? result.body : undefined;
  recorder.violations.push(...checkAws(service, operation, input, json));
  if (!result || result.headers) return result;
  const version = service === "apprunner" ? "1.0" : "1.1";
  return { ...result, headers: { "content-type": `application/x-amz-json-${version}` } };
}

/** Whether a call is not signed with the keys that a token was exchanged for. */
function isForeign({ federation }: AwsState, operation: string, { headers }: Received): boolean {
  if (federation === undefined || operation === "AssumeRoleWithWebIdentity") return false;
  const signed = headers.authorization?.includes(`Credential=${FEDERATED.id}/`);
  return !signed || headers["x-amz-security-token"] !== FEDERATED.token;
}

async function act(state: AwsState, service: string, operation: string, input: Json): Promise<Answer> {
  switch (service) {
    case "sts":
      return stsApi(state, operation, input);
    case "iam":
      return iamApi(state, operation, input);
    case "apprunner":
      return appRunnerApi(state, operation, input);
    case "ecs":
      return ecsApi(state, operation, input);
    case "ecr":
      return registryApi(state, operation, input);
    case "secretsmanager":
      return secretsApi(state, operation, input);
    case "logs":
      return ok({
        events: state.logs
          .filter(({ group }) => group === input.logGroupName)
          .map(({ message, timestamp }, index) => ({ message, timestamp, eventId: `e${index}` })),
      });
  }
  return refuse("UnknownOperationException", `no such service: ${service}`, 404);
}

async function serveUsers(state: AwsState, request: Received): Promise<Answer> {
  const instance = instanceOf(state, request.headers["x-forwarded-host"] ?? "");
  if (!instance) return { status: 404, body: "not found", headers: { "content-type": "text/plain" } };
  return forward(instance, request);
}

function instanceOf(state: AwsState, host: string): Instance | undefined {
  const runner = state.services.find(
    (one) =>
      host === `${one.id.slice(-10)}.${state.region}.awsapprunner.com` ||
      one.domains.some(({ name, status }) => host === name && status === "ACTIVE"),
  );
  const express = [...state.express.values()].find(
    (one) => host === `${one.name}.${state.switches.expressDomain}`,
  );
  return runner?.instance ?? express?.instance;
}
