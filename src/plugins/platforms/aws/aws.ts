import { parseRetryAfter } from "../../../core/base/retry-after.ts";
import type { AwsCredentials } from "../../../core/storage/sign-v4.ts";
import { DeployError } from "../../../deploy/errors.ts";
import { networkCode } from "../../../deploy/network.ts";
import { proxyFor, TunnelAgent } from "../../../deploy/proxy.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { checkEndpoint } from "../cloud/endpoint.ts";
import { explainFailure } from "../cloud/explain-failure.ts";
import { type Propagation, retrying } from "../cloud/retry.ts";
import { renewal } from "./aws-config.ts";

/** Clients by service: the package's last part, its class, and the variable's part that replaces its endpoint. */
const SERVICES = {
  apprunner: ["AppRunnerClient", "APPRUNNER"],
  ecr: ["ECRClient", "ECR"],
  "secrets-manager": ["SecretsManagerClient", "SECRETS_MANAGER"],
  sts: ["STSClient", "STS"],
  iam: ["IAMClient", "IAM"],
  ecs: ["ECSClient", "ECS"],
  "cloudwatch-logs": ["CloudWatchLogsClient", "CLOUDWATCH_LOGS"],
} as const;
export type AwsService = keyof typeof SERVICES;

/** Hosts whose names differ from the package's. */
const HOSTS: Readonly<Partial<Record<AwsService, string>>> = {
  ecr: "api.ecr",
  "secrets-manager": "secretsmanager",
  "cloudwatch-logs": "logs",
};

/** Services that every deployment on AWS uses. */
const COMMON: readonly AwsService[] = ["sts", "ecr", "iam", "secrets-manager", "cloudwatch-logs"];

export interface AwsCall<T> {
  /** Making the call twice has the same effect as once. */
  readonly idempotent?: boolean;
  readonly reread?: () => Promise<T | undefined>;
  readonly propagation?: readonly Propagation[];
}

interface Pages {
  readonly nextToken?: string;
  readonly NextToken?: string;
}

interface Client {
  send(command: unknown): Promise<unknown>;
  destroy(): void;
  readonly config: { credentials(): Promise<AwsCredentials> };
}
type Constructors = Record<string, new (input: unknown) => unknown>;

/** AWS's clients, each imported when its first call is made. Retries are ours, not theirs. */
export class Aws {
  readonly #tools: DeployTools;
  readonly #region: string;
  readonly #packages: readonly string[];
  readonly #open = new Map<AwsService, Promise<{ client: Client; constructors: Constructors }>>();

  /** @param own The service that this platform needs besides those that every deployment on AWS does. */
  constructor(tools: DeployTools, region: string, own: AwsService) {
    this.#tools = tools;
    this.#region = region;
    this.#packages = [...COMMON, own].map(packageOf);
  }

  /** A call that changes nothing. */
  read<T>(service: AwsService, command: string, input: object = {}): Promise<T> {
    return this.send<T>(service, command, input, { idempotent: true });
  }

  /** Reads; undefined if the response is one of the given errors. */
  async find<T>(
    service: AwsService,
    command: string,
    input: object,
    missing: RegExp,
  ): Promise<T | undefined> {
    try {
      return await this.read<T>(service, command, input);
    } catch (error) {
      if (error instanceof CloudError && missing.test(error.message)) return undefined;
      throw error;
    }
  }

  /** The pages of a list; none if the response is one of the given errors. */
  async *pages<T extends object>(
    service: AwsService,
    command: string,
    input: object,
    missing?: RegExp,
  ): AsyncGenerator<T> {
    let next: object | undefined = {};
    while (next) {
      const asked: object = { ...input, ...next };
      const page: (T & Pages) | undefined = missing
        ? await this.find(service, command, asked, missing)
        : await this.read(service, command, asked);
      if (page === undefined) return;
      yield page as Awaited<T>;
      const { nextToken, NextToken } = page;
      // Each service writes it one of these ways.
      next = nextToken ? { nextToken } : NextToken ? { NextToken } : undefined;
    }
  }

  async send<T>(service: AwsService, command: string, input: object, call: AwsCall<T> = {}): Promise<T> {
    const { client, constructors } = await this.#client(service);
    const Command = constructors[`${command}Command`];
    if (Command === undefined)
      throw new DeployError("preflight", `${packageOf(service)} is too old: it has no ${command}`, {
        fix: `npm install ${packageOf(service)}@latest`,
      });
    const once = async () => {
      this.#tools.signal.throwIfAborted();
      try {
        return (await client.send(new Command(input))) as T;
      } catch (error) {
        throw toCloudError(error, `${service} ${command}`);
      }
    };
    try {
      return await retrying(once, {
        tools: this.#tools,
        idempotent: call.idempotent ?? false,
        reread: call.reread,
        propagation: call.propagation,
      });
    } catch (error) {
      const url = this.#address(service);
      const login = renewal(this.#tools.env);
      throw explainFailure(this.#tools, error, { provider: "AWS", url, login, isExpired });
    }
  }

  /** The credentials that the SDK finds, for calls to a service that has no client here. */
  async credentials(): Promise<AwsCredentials> {
    const { client } = await this.#client("sts");
    try {
      const { accessKeyId, secretAccessKey, sessionToken } = await client.config.credentials();
      this.#tools.redact(secretAccessKey);
      if (sessionToken) this.#tools.redact(sessionToken);
      return { accessKeyId, secretAccessKey, sessionToken };
    } catch (error) {
      throw toCloudError(error, "sts");
    }
  }

  async close(): Promise<void> {
    for (const opened of this.#open.values()) (await opened).client.destroy();
  }

  #client(service: AwsService) {
    const opened = this.#open.get(service) ?? this.#load(service);
    this.#open.set(service, opened);
    return opened;
  }

  async #load(service: AwsService) {
    // Otherwise the SDK writes into the output of every command.
    process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= "true";
    const constructors = await this.#tools.importPeer<Constructors>(packageOf(service), this.#packages);
    const [className, variable] = SERVICES[service];
    const Class = constructors[className] as unknown as new (options: object) => Client;
    const endpoint = this.#endpoint(variable);
    const proxy = proxyFor(this.#address(service), this.#tools.env);
    const client = new Class({
      region: this.#region,
      maxAttempts: 1,
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(proxy ? { requestHandler: { httpsAgent: new TunnelAgent(proxy) } } : {}),
      ...this.#credentials(),
    });
    return { client, constructors };
  }

  /** The endpoint of a service, as far as it is known before the SDK resolves it. */
  #address(service: AwsService): string {
    const host = `${HOSTS[service] ?? service}.${this.#region}.amazonaws.com`;
    return this.#endpoint(SERVICES[service][1]) ?? `https://${host}`;
  }

  #endpoint(variable: string): string | undefined {
    for (const name of [`AWS_ENDPOINT_URL_${variable}`, "AWS_ENDPOINT_URL"]) {
      const own = this.#tools.env[name];
      if (own) return checkEndpoint(own, name);
    }
    return undefined;
  }

  /** Credentials from the environment are passed on; everything else is the SDK's own lookup. */
  #credentials(): object {
    const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = this.#tools.env;
    if (!AWS_ACCESS_KEY_ID || !AWS_SECRET_ACCESS_KEY) return {};
    this.#tools.redact(AWS_SECRET_ACCESS_KEY);
    if (AWS_SESSION_TOKEN) this.#tools.redact(AWS_SESSION_TOKEN);
    return {
      credentials: {
        accessKeyId: AWS_ACCESS_KEY_ID,
        secretAccessKey: AWS_SECRET_ACCESS_KEY,
        ...(AWS_SESSION_TOKEN ? { sessionToken: AWS_SESSION_TOKEN } : {}),
      },
    };
  }
}

function packageOf(service: AwsService): string {
  return `@aws-sdk/client-${service}`;
}

interface SdkError extends Error {
  readonly $metadata?: { readonly httpStatusCode?: number };
  readonly $response?: { readonly headers?: Readonly<Record<string, string>> };
}

function toCloudError(error: unknown, call: string): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, $metadata, $response } = error as SdkError;
  if (name === "CredentialsProviderError" || name === "TokenProviderError")
    return new DeployError("preflight", "No usable AWS credentials were found", {
      detail: message,
      fix: "Log in with: aws configure, or aws sso login (or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)",
      cause: error,
    });
  const status = $metadata?.httpStatusCode ?? 0;
  const after = parseRetryAfter($response?.headers?.["retry-after"]);
  const text = status === 0 ? `${call} got no response (${message || name})` : message;
  return new CloudError(text, {
    status,
    code: name,
    retryAfter: typeof after === "number" ? after : undefined,
    // The SDK's error itself holds the signed request; its cause only the failure of the connection.
    cause: status === 0 ? Object.assign(new Error(message), { code: networkCode(error) }) : undefined,
  });
}

/** Codes of a login that has expired or never was one. */
export function isExpired(code: string): boolean {
  return /^(ExpiredToken|RequestExpired|InvalidClientTokenId|UnrecognizedClient|InvalidAccessKeyId|InvalidSignature|SignatureDoesNotMatch|AuthFailure)/.test(
    code,
  );
}
