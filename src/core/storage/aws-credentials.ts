import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { messageOf } from "../base/error-text.ts";
import { type Call, type CallTools, send } from "./call.ts";
import type { AwsCredentials } from "./sign-v4.ts";
import { StorageFailure } from "./storage-failure.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Credentials, where the tools of AWS find them, in this order: variables, the token of a pod (web identity), a profile in
 * the credentials file, the role of a container (ECS, App Runner, EKS Pod Identity), the role of an instance (EC2).
 *
 * @throws {StorageFailure} if there are none.
 */
export async function findAwsCredentials(env: Environment, tools: CallTools): Promise<AwsCredentials> {
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = env;
  if (AWS_ACCESS_KEY_ID && AWS_SECRET_ACCESS_KEY) {
    return {
      accessKeyId: AWS_ACCESS_KEY_ID,
      secretAccessKey: AWS_SECRET_ACCESS_KEY,
      sessionToken: AWS_SESSION_TOKEN || undefined,
    };
  }
  const found =
    (await fromWebIdentity(env, tools)) ??
    fromProfile(env) ??
    (await fromContainer(env, tools)) ??
    (await fromInstance(env, tools));
  if (found !== undefined) return found;
  throw new StorageFailure("No credentials for the bucket were found", {
    reason: "denied",
    detail:
      "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where a role provides them: a task of ECS, a service of App Runner, a pod of EKS, an instance of EC2.",
  });
}

/** The credentials of a role, as containers and instances get them. */
interface RoleCredentials {
  readonly AccessKeyId: string;
  readonly SecretAccessKey: string;
  readonly Token: string;
  readonly Expiration: string;
}

async function fromContainer(env: Environment, tools: CallTools): Promise<AwsCredentials | undefined> {
  const relative = env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI;
  const url = relative ? `http://169.254.170.2${relative}` : env.AWS_CONTAINER_CREDENTIALS_FULL_URI;
  if (!url) return undefined;
  const file = env.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE;
  const token = file ? readFileSync(file, "utf8").trim() : env.AWS_CONTAINER_AUTHORIZATION_TOKEN;
  const text = await ask(
    "the container's role",
    { url, headers: token ? { authorization: token } : {} },
    tools,
  );
  return toCredentials(JSON.parse(text!) as RoleCredentials);
}

async function fromInstance(env: Environment, tools: CallTools): Promise<AwsCredentials | undefined> {
  if (env.AWS_EC2_METADATA_DISABLED === "true") return undefined;
  const base = `${env.AWS_EC2_METADATA_SERVICE_ENDPOINT ?? "http://169.254.169.254"}/latest`;
  let session: string;
  try {
    const headers = { "x-aws-ec2-metadata-token-ttl-seconds": "21600" };
    const call = { method: "PUT", url: `${base}/api/token`, headers } as const;
    // Elsewhere than on EC2, nobody responds.
    const response = await send(call, { ...tools, timeout: 1000 });
    if (response.status !== 200) return undefined;
    session = response.body.toString();
  } catch {
    return undefined;
  }
  const roles = `${base}/meta-data/iam/security-credentials/`;
  const headers = { "x-aws-ec2-metadata-token": session };
  const role = await ask("the instance's role", { url: roles, headers }, tools, true);
  if (role === undefined) return undefined;
  const text = await ask("the instance's role", { url: `${roles}${role.trim()}`, headers }, tools);
  return toCredentials(JSON.parse(text!) as RoleCredentials);
}

async function fromWebIdentity(env: Environment, tools: CallTools): Promise<AwsCredentials | undefined> {
  const { AWS_WEB_IDENTITY_TOKEN_FILE: file, AWS_ROLE_ARN: role, AWS_REGION: region } = env;
  if (!file || !role) return undefined;
  const base =
    env.AWS_ENDPOINT_URL_STS ??
    (region ? `https://sts.${region}.amazonaws.com` : "https://sts.amazonaws.com");
  const body = new URLSearchParams({
    ...{ Action: "AssumeRoleWithWebIdentity", Version: "2011-06-15", RoleArn: role },
    RoleSessionName: env.AWS_ROLE_SESSION_NAME ?? "agent-control-service",
    WebIdentityToken: readFileSync(file, "utf8").trim(),
  });
  const xml = await ask("AWS STS", { url: `${base}/`, body: Buffer.from(body.toString()) }, tools);
  const part = (name: string) => new RegExp(`<${name}>([^<]+)</${name}>`).exec(xml!)?.[1] ?? "";
  return toCredentials({
    AccessKeyId: part("AccessKeyId"),
    SecretAccessKey: part("SecretAccessKey"),
    Token: part("SessionToken"),
    Expiration: part("Expiration"),
  });
}

function fromProfile(env: Environment): AwsCredentials | undefined {
  const file = env.AWS_SHARED_CREDENTIALS_FILE ?? join(env.HOME ?? homedir(), ".aws", "credentials");
  if (!existsSync(file)) return undefined;
  const wanted = env.AWS_PROFILE ?? "default";
  const values: Record<string, string> = {};
  let profile = "";
  for (const line of readFileSync(file, "utf8").split("\n")) {
    profile = /^\s*\[([^\]]+)\]/.exec(line)?.[1]?.trim() ?? profile;
    const [, name, value] = /^\s*(\w+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (profile === wanted && name !== undefined) values[name] = value!;
  }
  const { aws_access_key_id: accessKeyId, aws_secret_access_key: secretAccessKey } = values;
  if (!accessKeyId || !secretAccessKey) return undefined;
  return { accessKeyId, secretAccessKey, sessionToken: values.aws_session_token };
}

function toCredentials(given: RoleCredentials): AwsCredentials {
  const { AccessKeyId, SecretAccessKey, Token, Expiration } = given;
  const expires = Date.parse(Expiration);
  if (!AccessKeyId || !SecretAccessKey || Number.isNaN(expires))
    throw refused("the role", "an empty response");
  return { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: Token, expires };
}

/** Resolves with the text of a response; its content is in no message. */
async function ask(
  who: string,
  { url, headers = {}, body }: Pick<Call, "url" | "body"> & Partial<Pick<Call, "headers">>,
  tools: CallTools,
  optional = false,
): Promise<string | undefined> {
  const call: Call =
    body === undefined
      ? { method: "GET", url, headers }
      : { method: "POST", url, body, headers: { "content-type": "application/x-www-form-urlencoded" } };
  try {
    const response = await send(call, { ...tools, timeout: 5000 });
    if (response.status === 200) return response.body.toString();
    if (optional && response.status === 404) return undefined;
    throw new Error(`status ${response.status}`);
  } catch (error) {
    throw refused(who, messageOf(error));
  }
}

function refused(who: string, says: string): StorageFailure {
  return new StorageFailure(`Credentials for the bucket could not be obtained from ${who} (${says})`, {
    reason: "unavailable",
    detail: "Check the role of this service, and retry.",
  });
}
