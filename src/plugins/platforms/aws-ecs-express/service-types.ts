/** The parts of ECS's answers that are read here. */
export interface Service {
  readonly serviceArn?: string;
  readonly serviceName?: string;
  readonly status?: { readonly statusCode?: string; readonly statusReason?: string };
  readonly updatedAt?: Date;
  readonly currentDeployment?: string;
  readonly activeConfigurations?: readonly Configuration[];
  readonly tags?: readonly { readonly key?: string; readonly value?: string }[];
}

export interface Configuration {
  readonly serviceRevisionArn?: string;
  readonly executionRoleArn?: string;
  readonly taskRoleArn?: string;
  readonly cpu?: string;
  readonly memory?: string;
  readonly cpuArchitecture?: string;
  readonly healthCheckPath?: string;
  readonly primaryContainer?: PrimaryContainer;
  readonly scalingTarget?: ScalingTarget;
  readonly networkConfiguration?: Network;
  readonly ingressPaths?: readonly { readonly accessType?: string; readonly endpoint?: string }[];
}

export interface Network {
  readonly subnets?: readonly string[];
  readonly securityGroups?: readonly string[];
}

export interface ScalingTarget {
  readonly minTaskCount?: number;
  readonly maxTaskCount?: number;
  readonly autoScalingMetric?: string;
  readonly autoScalingTargetValue?: number;
}

export interface PrimaryContainer {
  readonly image?: string;
  readonly containerPort?: number;
  readonly awsLogsConfiguration?: { readonly logGroup?: string };
  readonly environment?: readonly { readonly name?: string; readonly value?: string }[];
  readonly secrets?: readonly { readonly name: string; readonly valueFrom: string }[];
}

export interface ServiceDeployment {
  readonly serviceDeploymentArn?: string;
  readonly targetServiceRevisionArn?: string;
  readonly status?: string;
  readonly statusReason?: string;
  readonly lifecycleStage?: string;
}
