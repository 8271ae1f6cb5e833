import type { AwsContext } from "../aws/aws-context.ts";
import type { WantedRole } from "../aws/roles.ts";
import type { EcsExpressFlags } from "./flags.ts";

export type Context = AwsContext<EcsExpressFlags>;

/** The full name of a service, computed without a lookup. */
export function serviceArn({ identity, target }: Context): string {
  const { account, partition } = identity;
  return `arn:${partition}:ecs:${target.region}:${account}:service/${clusterOf(target.flags)}/${target.serviceName}`;
}

export function clusterOf({ cluster }: EcsExpressFlags): string {
  return cluster ?? "default";
}

/** The address that a new service will get, as far as known; other partitions have other domains. */
export function expectedUrl({ identity, target }: Context): string | undefined {
  if (identity.partition !== "aws") return undefined;
  return `https://${target.serviceName}.ecs.${target.region}.on.aws`;
}

/** All roles that svc makes for a service. */
export const madeRoles = (context: Context): WantedRole[] => [
  executionRole(context),
  taskRole(context),
  infrastructureRole(context),
];

/** The role with which ECS starts tasks: it fetches images and reads secrets. */
export function executionRole({ target }: Context, secrets?: object): WantedRole {
  return {
    name: `${target.serviceName}-${target.region}-exec`,
    purpose: "with which ECS pulls the image, reads the secrets and writes the log",
    principal: "ecs-tasks.amazonaws.com",
    managed: ["service-role/AmazonECSTaskExecutionRolePolicy"],
    inline: { name: "secrets", document: secrets },
  };
}

/** The role that the service itself runs with, where it has its store in a bucket. */
export function taskRole({ target }: Context): WantedRole {
  return {
    name: `${target.serviceName}-${target.region}-task`,
    purpose: "with which the service uses its bucket",
    principal: "ecs-tasks.amazonaws.com",
    managed: [],
  };
}

/** The role with which ECS creates the load balancer, its certificate and the scaling. */
export function infrastructureRole({ target }: Context): WantedRole {
  return {
    name: `${target.serviceName}-${target.region}-infra`,
    purpose: "with which ECS sets up the load balancer, its certificate and scaling",
    principal: "ecs.amazonaws.com",
    managed: ["service-role/AmazonECSInfrastructureRoleforExpressGatewayServices"],
  };
}
