/** The parts of App Runner's answers that are read here. */
export interface Service {
  readonly ServiceName?: string;
  readonly ServiceId?: string;
  readonly ServiceArn?: string;
  readonly ServiceUrl?: string;
  readonly Status?: string;
  readonly UpdatedAt?: Date;
  readonly SourceConfiguration?: SourceConfiguration;
  readonly InstanceConfiguration?: InstanceConfiguration;
  readonly HealthCheckConfiguration?: HealthCheck;
  readonly NetworkConfiguration?: NetworkConfiguration;
  readonly EncryptionConfiguration?: { readonly KmsKey?: string };
  readonly ObservabilityConfiguration?: {
    readonly ObservabilityEnabled?: boolean;
    readonly ObservabilityConfigurationArn?: string;
  };
  readonly AutoScalingConfigurationSummary?: { readonly AutoScalingConfigurationArn?: string };
}

export interface NetworkConfiguration {
  readonly EgressConfiguration?: { readonly EgressType?: string; readonly VpcConnectorArn?: string };
  readonly IngressConfiguration?: { readonly IsPubliclyAccessible?: boolean };
  readonly IpAddressType?: string;
}

export interface SourceConfiguration {
  readonly ImageRepository?: {
    readonly ImageIdentifier?: string;
    readonly ImageRepositoryType?: string;
    readonly ImageConfiguration?: ImageConfiguration;
  };
  readonly AuthenticationConfiguration?: { readonly AccessRoleArn?: string };
  readonly AutoDeploymentsEnabled?: boolean;
}

export interface ImageConfiguration {
  readonly Port?: string;
  /** Maps, not the lists of other services. */
  readonly RuntimeEnvironmentVariables?: Readonly<Record<string, string>>;
  readonly RuntimeEnvironmentSecrets?: Readonly<Record<string, string>>;
}

export interface InstanceConfiguration {
  readonly Cpu?: string;
  readonly Memory?: string;
  readonly InstanceRoleArn?: string;
}

export interface HealthCheck {
  readonly Protocol?: string;
  readonly Path?: string;
  readonly Interval?: number;
  readonly Timeout?: number;
  readonly HealthyThreshold?: number;
  readonly UnhealthyThreshold?: number;
}

export interface Operation {
  readonly Id?: string;
  readonly Type?: string;
  readonly Status?: string;
}
