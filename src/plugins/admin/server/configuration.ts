import { describeTrust } from "../../../core/http/clients.ts";
import type { ResolvedOptions } from "../../../core/service/options.ts";

/** The effective options; for secrets only whether they are set. */
export function readConfiguration(
  options: ResolvedOptions,
): Record<string, string | number | boolean | null> {
  const { account } = options;
  return {
    host: options.host,
    port: options.port,
    publicUrl: options.publicUrl ?? null,
    environment: options.environment,
    apiPrefix: options.apiPrefix,
    dataDir: options.dataDir,
    apiKey: options.apiKey === undefined ? "generated" : "set",
    previousApiKey: options.previousApiKey === undefined ? "none" : "set",
    trustProxy: describeTrust(options.trustProxy),
    rsaPrivateKey: options.rsaPrivateKey === undefined ? "generated" : "set",
    previousRsaPrivateKey: options.previousRsaPrivateKey === undefined ? "none" : "set",
    encryption: describeEncryption(options),
    envelopes: options.envelopes,
    account: account ? `${account.workspace_id} at ${withoutSecrets(account.api_url)}` : "none",
    logLevel: options.logLevel,
    logFormat: options.logFormat,
    bodyLimit: options.bodyLimit,
    maxConcurrentJobs: options.maxConcurrentJobs,
    maxQueuedJobs: options.maxQueuedJobs,
    maxStreams: options.maxStreams,
    stopGrace: options.stopGrace,
    shutdownGrace: options.shutdownGrace,
    paused: options.paused,
    pluginTimeout: options.pluginTimeout,
  };
}

function describeEncryption({ encryption }: ResolvedOptions): string {
  if (encryption === undefined) return "none";
  return encryption.sealsWith === undefined ? "off: only read" : `with the key ${encryption.sealsWith}`;
}

/** An address without what may be secret in it: user, password, query. */
export function withoutSecrets(url: string): string {
  try {
    const parsed = new URL(url);
    return `${parsed.origin}${parsed.pathname}`;
  } catch {
    return "an invalid address";
  }
}
