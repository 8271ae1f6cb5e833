import type { Answer } from "../http-server.ts";
import { assumeProblem } from "./identity.ts";
import type { AwsState, ExpressDeployment, ExpressService, Json } from "./state.ts";
import { ok, readSecret, refuse } from "./state.ts";

interface Container {
  image: string;
  containerPort?: number;
  environment?: { name: string; value: string }[];
  secrets?: { name: string; valueFrom: string }[];
}

const GOING_ON = ["PENDING", "IN_PROGRESS", "STOP_REQUESTED", "ROLLBACK_REQUESTED", "ROLLBACK_IN_PROGRESS"];
const CONFIGURATION = [
  "executionRoleArn",
  "taskRoleArn",
  "cpu",
  "memory",
  "healthCheckPath",
  "primaryContainer",
  "scalingTarget",
  "networkConfiguration",
  "cpuArchitecture",
];

/** Express Mode of ECS. */
export async function ecsApi(state: AwsState, operation: string, input: Json): Promise<Answer> {
  if (operation === "CreateExpressGatewayService") return create(state, input);
  if (operation === "ListServices") return list(state, input);
  if (operation === "DescribeServiceDeployments") return describeDeployments(state, input);
  if (operation === "StopServiceDeployment") return stopDeployment(state, input);
  if (operation === "DescribeServiceRevisions") return describeRevisions(state, input);
  if (operation === "DescribeTaskDefinition") return describeTask(state, input);
  const arn = String(input.serviceArn ?? input.service ?? input.resourceArn);
  const service = state.express.get(arn);
  if (!service)
    return refuse(
      operation.includes("Describe") ? "ResourceNotFoundException" : "ServiceNotFoundException",
      "Resource not found",
    );
  await tick(state, service);
  switch (operation) {
    case "DescribeExpressGatewayService":
      return ok({ service: json(state, service) });
    case "TagResource":
      label(service, input.tags as ExpressService["tags"], []);
      return ok({});
    case "UntagResource":
      label(service, [], input.tagKeys as string[]);
      return ok({});
    case "ListServiceDeployments":
      return ok({
        serviceDeployments: service.deployments
          .filter(({ status }) => ((input.status as string[] | undefined) ?? [status]).includes(status))
          .map(brief),
      });
    case "UpdateExpressGatewayService":
      return update(state, service, input);
    case "DeleteExpressGatewayService":
      if (service.status !== "ACTIVE")
        return refuse("ServiceNotActiveException", "Service is in DRAINING status");
      service.status = "DRAINING";
      service.draining = 3;
      return ok({ service: json(state, service) });
  }
  return refuse("UnknownOperationException", operation);
}

/** Two services a page, so that a client that reads only one page is found. */
function list(state: AwsState, input: Json): Answer {
  const arns = [...state.express.values()]
    .filter(({ status }) => status !== "INACTIVE")
    .map(({ arn }) => arn)
    .filter((arn) => arn.includes(`:service/${String(input.cluster ?? "default")}/`));
  const from = Number(input.nextToken ?? 0);
  const next = from + 2 < arns.length ? { nextToken: String(from + 2) } : {};
  return ok({ serviceArns: arns.slice(from, from + 2), ...next });
}

function create(state: AwsState, input: Json): Answer {
  const name = String(input.serviceName);
  const arn = `arn:aws:ecs:${state.region}:${state.account}:service/${String(input.cluster ?? "default")}/${name}`;
  const found = state.express.get(arn);
  if (found && found.status !== "INACTIVE")
    return refuse("InvalidParameterException", "Creation of service was not idempotent.");
  const problem = roleProblem(state, input);
  if (problem) return problem;
  const service: ExpressService = {
    name,
    arn,
    status: "ACTIVE",
    active: undefined,
    tags: (input.tags as ExpressService["tags"] | undefined) ?? [],
    infrastructureRoleArn: String(input.infrastructureRoleArn),
    deployments: [],
    instance: undefined,
    draining: 0,
  };
  state.express.set(arn, service);
  begin(state, service, {
    ...{ cpu: "256", memory: "512", healthCheckPath: "/ping", cpuArchitecture: "X86_64" },
    ...pick(input),
  });
  return ok({ service: json(state, service) });
}

function label({ tags }: ExpressService, set: ExpressService["tags"], dropped: readonly string[]): void {
  const keys = [...dropped, ...set.map(({ key }) => key)];
  tags.splice(0, tags.length, ...tags.filter(({ key }) => !keys.includes(key)), ...set);
}

function update(state: AwsState, service: ExpressService, input: Json): Answer {
  if (service.status !== "ACTIVE")
    return refuse("ServiceNotActiveException", `Service is in ${service.status} status`);
  if (service.deployments[0] && GOING_ON.includes(service.deployments[0].status))
    return refuse("ClientException", "A deployment of the service is in progress.");
  if (
    assumeProblem(
      state,
      input.executionRoleArn ?? service.active?.executionRoleArn,
      "ecs-tasks.amazonaws.com",
    )
  )
    return refuse("AccessDeniedException", "Cannot assume role");
  if (input.taskRoleArn && assumeProblem(state, input.taskRoleArn, "ecs-tasks.amazonaws.com"))
    return refuse("AccessDeniedException", "Cannot assume role");
  const { serviceRevisionArn: _, ...before } = service.active ?? { serviceRevisionArn: "" };
  const started = begin(state, service, { ...before, ...pick(input) });
  return ok({
    service: { serviceArn: service.arn, serviceName: service.name, targetConfiguration: started.target },
  });
}

function roleProblem(state: AwsState, input: Json): Answer | undefined {
  if (!input.infrastructureRoleArn || !input.executionRoleArn)
    return refuse("InvalidParameterException", "roles are required");
  const infrastructure = assumeProblem(state, input.infrastructureRoleArn, "ecs.amazonaws.com");
  const execution = assumeProblem(state, input.executionRoleArn, "ecs-tasks.amazonaws.com");
  const task = input.taskRoleArn && assumeProblem(state, input.taskRoleArn, "ecs-tasks.amazonaws.com");
  if (!infrastructure && !execution && !task) return undefined;
  const failed = infrastructure
    ? input.infrastructureRoleArn
    : execution
      ? input.executionRoleArn
      : input.taskRoleArn;
  return refuse("AccessDeniedException", `Cannot assume role ${String(failed)}`);
}

function pick(input: Json): Json {
  return Object.fromEntries(
    CONFIGURATION.flatMap((key) => (input[key] === undefined ? [] : [[key, input[key]]])),
  );
}

function begin(state: AwsState, service: ExpressService, config: Json): ExpressDeployment {
  const revision = `${service.arn.replace(":service/", ":service-revision/")}/${1000 + state.next()}`;
  const deployment: ExpressDeployment = {
    arn: `${service.arn.replace(":service/", ":service-deployment/")}/d${state.next()}`,
    status: "IN_PROGRESS",
    stage: "SCALE_UP",
    reads: 4,
    target: { ...structuredClone(config), serviceRevisionArn: revision },
  };
  service.deployments.unshift(deployment);
  return deployment;
}

/** Advances what is in progress by one read. */
export async function tick(state: AwsState, service: ExpressService): Promise<void> {
  if (service.status === "DRAINING" && service.draining-- <= 0) {
    service.status = "INACTIVE";
    await service.instance?.stop();
    service.instance = undefined;
  }
  const [deployment] = service.deployments;
  if (!deployment || !GOING_ON.includes(deployment.status)) return;
  deployment.reads -= 1;
  if (deployment.reads === 2) deployment.stage = "BAKE_TIME";
  if (deployment.reads > 0) return;
  if (deployment.status === "ROLLBACK_REQUESTED") deployment.status = "ROLLBACK_SUCCESSFUL";
  else await finish(state, service, deployment);
}

async function finish(
  state: AwsState,
  service: ExpressService,
  deployment: ExpressDeployment,
): Promise<void> {
  const container = deployment.target.primaryContainer as Container;
  try {
    const role = [...state.roles.values()].find(({ arn }) => arn === deployment.target.executionRoleArn);
    const secrets = (container.secrets ?? []).map(({ name, valueFrom }) => {
      const value = readSecret(state, valueFrom, role);
      if (value === undefined) throw new Error(`secret ${name} cannot be read`);
      return [name, value] as const;
    });
    const plain = (container.environment ?? []).map(({ name, value }) => [name, value] as const);
    const instance = await state.images.start(container.image, Object.fromEntries([...plain, ...secrets]));
    const before = service.instance;
    service.instance = instance;
    service.active = deployment.target;
    deployment.status = "SUCCESSFUL";
    await before?.stop();
  } catch {
    deployment.statusReason = "Service deployment failed: tasks failed to start.";
    deployment.status = service.active ? "ROLLBACK_SUCCESSFUL" : "ROLLBACK_FAILED";
  }
}

async function describeDeployments(state: AwsState, input: Json): Promise<Answer> {
  const arns = input.serviceDeploymentArns as string[];
  const found: Json[] = [];
  for (const service of state.express.values())
    for (const deployment of service.deployments) {
      if (!arns.includes(deployment.arn)) continue;
      await tick(state, service);
      found.push({ ...brief(deployment), lifecycleStage: deployment.stage });
    }
  for (const deployment of found) delete deployment.targetServiceRevisionArn;
  return ok({ serviceDeployments: found, failures: [] });
}

function describeRevisions(state: AwsState, input: Json): Answer {
  const arns = input.serviceRevisionArns as string[];
  const serviceRevisions = targetsOf(state)
    .filter(({ serviceRevisionArn }) => arns.includes(serviceRevisionArn))
    .map(({ serviceRevisionArn }) => ({ serviceRevisionArn, taskDefinition: taskOf(serviceRevisionArn) }));
  return ok({ serviceRevisions, failures: [] });
}

function describeTask(state: AwsState, input: Json): Answer {
  const target = targetsOf(state).find((one) => taskOf(one.serviceRevisionArn) === input.taskDefinition);
  if (!target) return refuse("ClientException", "Unable to describe task definition.");
  const { image, containerPort = 80, environment = [], secrets = [] } = target.primaryContainer as Container;
  const main = { name: "Main", image, environment, secrets, portMappings: [{ containerPort }] };
  return ok({
    taskDefinition: {
      taskDefinitionArn: input.taskDefinition,
      cpu: target.cpu,
      memory: target.memory,
      runtimePlatform: {
        cpuArchitecture: target.cpuArchitecture ?? "X86_64",
        operatingSystemFamily: "LINUX",
      },
      containerDefinitions: [main],
    },
  });
}

function targetsOf(state: AwsState): ExpressDeployment["target"][] {
  return [...state.express.values()].flatMap(({ deployments }) => deployments.map(({ target }) => target));
}

/** Each revision has its own task definition. */
function taskOf(revision: string): string {
  const [start = "", , name = "", number = ""] = revision.split("/");
  return `${start.replace(":service-revision", ":task-definition")}/default-${name}:${number}`;
}

function stopDeployment(state: AwsState, input: Json): Answer {
  const arn = String(input.serviceDeploymentArn);
  for (const service of state.express.values())
    for (const deployment of service.deployments)
      if (deployment.arn === arn) {
        if (!GOING_ON.includes(deployment.status)) return refuse("ConflictException", "deployment has ended");
        deployment.status = "ROLLBACK_REQUESTED";
        deployment.reads = 2;
        return ok({ serviceDeploymentArn: arn });
      }
  return refuse("ServiceDeploymentNotFoundException", "no such deployment");
}

function brief(deployment: ExpressDeployment): Json {
  return {
    serviceDeploymentArn: deployment.arn,
    status: deployment.status,
    ...(deployment.statusReason ? { statusReason: deployment.statusReason } : {}),
    targetServiceRevisionArn: deployment.target.serviceRevisionArn,
  };
}

function json(state: AwsState, service: ExpressService): Json {
  const network = (service.active?.networkConfiguration ?? {}) as Record<string, string[] | undefined>;
  const active = service.active && {
    ...structuredClone(service.active),
    // A security group of its own, which nobody asked for.
    networkConfiguration: {
      subnets: network.subnets ?? ["subnet-0a1b2c3d"],
      securityGroups: [...new Set([...(network.securityGroups ?? []), "sg-0ec50ec50ec50ec50"])],
    },
    ingressPaths: [{ accessType: "PUBLIC", endpoint: `${service.name}.${state.switches.expressDomain}` }],
  };
  return {
    serviceName: service.name,
    serviceArn: service.arn,
    cluster: "default",
    infrastructureRoleArn: service.infrastructureRoleArn,
    status: { statusCode: service.status },
    ...(service.deployments[0] ? { currentDeployment: service.deployments[0].arn } : {}),
    activeConfigurations: active ? [active] : [],
    tags: service.tags,
  };
}
