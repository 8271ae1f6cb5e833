import type { Answer } from "../http-server.ts";
import { associate, describeDomains, disassociate } from "./apprunner-domains.ts";
import { assumeProblem } from "./identity.ts";
import type { AwsState, Json, RunnerOperation, RunnerService } from "./state.ts";
import { ok, readSecret, refuse as refuseAs } from "./state.ts";

interface Source {
  ImageRepository?: {
    ImageIdentifier: string;
    ImageRepositoryType: string;
    ImageConfiguration?: {
      Port?: string;
      RuntimeEnvironmentVariables?: Record<string, string>;
      RuntimeEnvironmentSecrets?: Record<string, string>;
    };
  };
  AuthenticationConfiguration?: { AccessRoleArn?: string };
  AutoDeploymentsEnabled?: boolean;
}

const refuse = (type: string, message: string, status = 400): Answer =>
  refuseAs(type, message, status, "Message");
const invalid = (message: string): Answer => refuse("InvalidRequestException", message);

/** App Runner: services, their operations and scaling configurations. */
export async function appRunnerApi(state: AwsState, operation: string, input: Json): Promise<Answer> {
  if (state.switches.closed)
    return refuse(
      "AccessDeniedException",
      "AWS App Runner is no longer available to new customers as of 30 April 2026.",
      403,
    );
  if (operation === "ListServices")
    return ok({
      ServiceSummaryList: state.services.filter(({ status }) => status !== "DELETED").map(summary),
    });
  if (operation === "CreateService") return create(state, input);
  if (operation.endsWith("AutoScalingConfiguration") || operation.endsWith("AutoScalingConfigurations"))
    return scaling(state, operation, input);
  const arn = String(input.ServiceArn ?? input.ResourceArn);
  const service = state.services.find((one) => one.arn === arn);
  if (!service)
    return refuse("ResourceNotFoundException", "Service with the provided ARN could not be found");
  await tick(service);
  switch (operation) {
    case "DescribeService":
      return ok({ Service: json(state, service) });
    case "ListTagsForResource":
      return ok({ Tags: service.tags });
    case "TagResource":
      return tag(service, input.Tags as RunnerService["tags"]);
    case "UntagResource":
      remove(service, input.TagKeys as string[]);
      return ok({});
    case "ListOperations":
      return ok({
        OperationSummaryList: service.operations.map(({ id, type, status }) => ({
          Id: id,
          Type: type,
          Status: status,
        })),
      });
    case "DescribeCustomDomains":
      return describeDomains(state, service, input);
    case "AssociateCustomDomain":
      return associate(state, service, input);
    case "DisassociateCustomDomain":
      return disassociate(state, service, input);
    case "UpdateService":
      return update(state, service, input);
    case "PauseService":
      if (service.status !== "RUNNING")
        return refuse("InvalidStateException", "Service cannot be paused in the current state");
      return begin(state, service, "PAUSE_SERVICE", async () => {
        await stop(service);
        service.status = "PAUSED";
        return "SUCCEEDED";
      });
    case "ResumeService":
      if (service.status !== "PAUSED")
        return refuse("InvalidStateException", "Service cannot be resumed in the current state");
      return begin(state, service, "RESUME_SERVICE", () => bringUp(state, service, undefined));
    case "DeleteService":
      if (service.status === "OPERATION_IN_PROGRESS")
        return refuse("InvalidStateException", "Service has an operation in progress");
      return begin(state, service, "DELETE_SERVICE", async () => {
        await stop(service);
        service.status = "DELETED";
        return "SUCCEEDED";
      });
  }
  return refuse("UnknownOperationException", operation);
}

function create(state: AwsState, input: Json): Answer {
  const name = String(input.ServiceName);
  const problem = configProblem(state, input);
  if (problem) return problem;
  if (state.services.some((one) => one.name === name && one.status !== "DELETED"))
    return invalid(`Service with the provided name already exists: ${name}.`);
  const id = String(state.next()).padStart(32, "0");
  const service: RunnerService = {
    name,
    id,
    arn: `arn:aws:apprunner:${state.region}:${state.account}:service/${name}/${id}`,
    status: "OPERATION_IN_PROGRESS",
    config: configOf(input),
    scaling: String(
      input.AutoScalingConfigurationArn ??
        "arn:aws:apprunner:us-east-1:123456789012:autoscalingconfiguration/DefaultConfiguration/1/1",
    ),
    tags: (input.Tags as RunnerService["tags"] | undefined) ?? [],
    operations: [],
    domains: [],
    instance: undefined,
  };
  state.services.push(service);
  return begin(state, service, "CREATE_SERVICE", () => bringUp(state, service, undefined));
}

function update(state: AwsState, service: RunnerService, input: Json): Answer {
  if (service.status === "CREATE_FAILED" && state.switches.refuseRepair)
    return refuse("InvalidStateException", "Service status must be RUNNING or PAUSED to be updated");
  if (!["RUNNING", "PAUSED", "CREATE_FAILED"].includes(service.status))
    return refuse("InvalidStateException", "Service status must be RUNNING or PAUSED to be updated");
  const problem = configProblem(state, { ...service.config, ...input });
  if (problem) return problem;
  const before = { config: service.config, status: service.status, scaling: service.scaling };
  service.config = { ...service.config, ...configOf(input) };
  if (input.AutoScalingConfigurationArn) service.scaling = String(input.AutoScalingConfigurationArn);
  return begin(state, service, "UPDATE_SERVICE", () => bringUp(state, service, before));
}

function tag(service: RunnerService, tags: RunnerService["tags"]): Answer {
  const keys = tags.map(({ Key }) => Key);
  const others = service.tags.filter(({ Key }) => !keys.includes(Key));
  if (others.length + tags.length > 50) return invalid("Tag limit exceeded");
  if (service.status === "OPERATION_IN_PROGRESS")
    return refuse("InvalidStateException", "Service has an operation in progress");
  remove(service, keys);
  service.tags.push(...tags);
  return ok({});
}

function remove({ tags }: RunnerService, keys: readonly string[]): void {
  tags.splice(0, tags.length, ...tags.filter(({ Key }) => !keys.includes(Key)));
}

function begin(state: AwsState, service: RunnerService, type: string, finish: () => Promise<string>): Answer {
  const operation: RunnerOperation = { id: state.uuid(), type, status: "IN_PROGRESS", reads: 3, finish };
  service.operations.unshift(operation);
  service.status = "OPERATION_IN_PROGRESS";
  return ok({ Service: json(state, service), OperationId: operation.id });
}

async function tick(service: RunnerService): Promise<void> {
  const [operation] = service.operations;
  if (operation?.status !== "IN_PROGRESS") return;
  operation.reads -= 1;
  if (operation.reads <= 0) operation.status = await operation.finish();
}

/** Starts what is configured; after a failure what ran before comes back, and the service says that it runs. */
async function bringUp(
  state: AwsState,
  service: RunnerService,
  before: { config: Json; status: string; scaling: string } | undefined,
): Promise<string> {
  try {
    const started = await start(state, service);
    const before = service.instance;
    service.instance = started;
    service.status = "RUNNING";
    await before?.stop();
    return "SUCCEEDED";
  } catch {
    state.logs.push({
      group: `/aws/apprunner/${service.name}/${service.id}/service`,
      message: "[AppRunner] Container exit code: 1",
      timestamp: Date.now(),
    });
    if (before === undefined || before.status === "CREATE_FAILED") {
      service.status = "CREATE_FAILED";
      return "FAILED";
    }
    service.config = before.config;
    service.scaling = before.scaling;
    service.status = before.status;
    return "ROLLBACK_SUCCEEDED";
  }
}

async function start(state: AwsState, service: RunnerService) {
  const { ImageRepository } = service.config.SourceConfiguration as Source;
  const config = ImageRepository?.ImageConfiguration;
  const instance = service.config.InstanceConfiguration as { InstanceRoleArn?: string } | undefined;
  const role = [...state.roles.values()].find(({ arn }) => arn === instance?.InstanceRoleArn);
  const secrets = Object.entries(config?.RuntimeEnvironmentSecrets ?? {}).map(([key, arn]) => {
    const value = readSecret(state, arn, role);
    if (value === undefined) throw new Error(`secret ${key} cannot be read`);
    return [key, value] as const;
  });
  return state.images.start(ImageRepository?.ImageIdentifier ?? "", {
    ...config?.RuntimeEnvironmentVariables,
    ...Object.fromEntries(secrets),
    PORT: config?.Port ?? "8080",
  });
}

async function stop(service: RunnerService): Promise<void> {
  await service.instance?.stop();
  service.instance = undefined;
}

function configProblem(state: AwsState, input: Json): Answer | undefined {
  const source = input.SourceConfiguration as Source | undefined;
  const image = source?.ImageRepository;
  if (!image) return invalid("SourceConfiguration.ImageRepository is required");
  if (image.ImageRepositoryType === "ECR" && !source?.AuthenticationConfiguration?.AccessRoleArn)
    return invalid("Authentication configuration is invalid.");
  if (
    !/^\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com\/[^@]+(@sha256:[0-9a-f]{64}|:.+)$/.test(
      image.ImageIdentifier,
    )
  )
    return invalid("Image identifier is invalid");
  const { Interval = 5, Timeout = 2 } = (input.HealthCheckConfiguration ?? {}) as {
    Interval?: number;
    Timeout?: number;
  };
  if (Timeout > 20 || Interval > 20) return invalid("Health check is invalid");
  for (const arn of Object.values(image.ImageConfiguration?.RuntimeEnvironmentSecrets ?? {}))
    if (!/^arn:aws:(secretsmanager|ssm):/.test(arn)) return invalid(`Secret reference is invalid: ${arn}`);
  const access = assumeProblem(
    state,
    source?.AuthenticationConfiguration?.AccessRoleArn,
    "build.apprunner.amazonaws.com",
  );
  if (access)
    return invalid(`Error in assuming access role ${source?.AuthenticationConfiguration?.AccessRoleArn}`);
  const role = (input.InstanceConfiguration as { InstanceRoleArn?: string } | undefined)?.InstanceRoleArn;
  if (role !== undefined && assumeProblem(state, role, "tasks.apprunner.amazonaws.com"))
    return invalid(`Error in assuming instance role ${role}`);
  return undefined;
}

/** What is kept of a request, as it is given back: sizes in plain units, the default for automatic deployments on. */
function configOf(input: Json): Json {
  const kept: Json = {};
  if (input.SourceConfiguration)
    kept.SourceConfiguration = { AutoDeploymentsEnabled: true, ...(input.SourceConfiguration as Json) };
  if (input.HealthCheckConfiguration) kept.HealthCheckConfiguration = input.HealthCheckConfiguration;
  if (input.NetworkConfiguration) kept.NetworkConfiguration = input.NetworkConfiguration;
  if (input.InstanceConfiguration) {
    const {
      Cpu = "1024",
      Memory = "2048",
      ...rest
    } = input.InstanceConfiguration as { Cpu?: string; Memory?: string };
    kept.InstanceConfiguration = { ...rest, Cpu: units(Cpu), Memory: units(Memory) };
  }
  return kept;
}

function units(text: string): string {
  const match = /^([\d.]+) (vCPU|GB)$/.exec(text);
  return match ? String(Number(match[1]) * 1024) : text;
}

function scaling(state: AwsState, operation: string, input: Json): Answer {
  const toJson = (one: AwsState["scaling"][number]) => ({
    AutoScalingConfigurationArn: one.arn,
    AutoScalingConfigurationName: one.name,
    AutoScalingConfigurationRevision: 1,
    Status: one.status,
  });
  if (operation === "ListAutoScalingConfigurations")
    return ok({
      AutoScalingConfigurationSummaryList: state.scaling
        .filter(({ status }) => status === "ACTIVE")
        .map(toJson),
    });
  if (operation === "CreateAutoScalingConfiguration") {
    const name = String(input.AutoScalingConfigurationName);
    const revision = state.scaling.filter((one) => one.name === name).length + 1;
    const made = {
      arn: `arn:aws:apprunner:${state.region}:${state.account}:autoscalingconfiguration/${name}/${revision}/${state.next()}`,
      name,
      min: Number(input.MinSize ?? 1),
      max: Number(input.MaxSize ?? 25),
      requests: Number(input.MaxConcurrency ?? 100),
      status: "ACTIVE",
    };
    if (made.max < made.min) return invalid("MaxSize below MinSize");
    state.scaling.push(made);
    return ok({ AutoScalingConfiguration: { ...toJson(made), MinSize: made.min, MaxSize: made.max } });
  }
  const found = state.scaling.find(({ arn }) => arn === input.AutoScalingConfigurationArn);
  if (!found) return refuse("ResourceNotFoundException", "no such configuration");
  if (state.services.some((one) => one.scaling === found.arn && one.status !== "DELETED"))
    return invalid("configuration is in use");
  found.status = "INACTIVE";
  return ok({ AutoScalingConfiguration: toJson(found) });
}

function summary(service: RunnerService): Json {
  return {
    ServiceName: service.name,
    ServiceId: service.id,
    ServiceArn: service.arn,
    Status: service.status,
  };
}

function json(state: AwsState, service: RunnerService): Json {
  return {
    ...summary(service),
    ServiceUrl: `${service.id.slice(-10)}.${state.region}.awsapprunner.com`,
    CreatedAt: 1_790_000_000,
    UpdatedAt: 1_790_000_000,
    NetworkConfiguration: {
      EgressConfiguration: { EgressType: "DEFAULT" },
      IngressConfiguration: { IsPubliclyAccessible: true },
    },
    ...structuredClone(service.config),
    AutoScalingConfigurationSummary: { AutoScalingConfigurationArn: service.scaling },
  };
}
