import type { Logger } from "../../core/base/log.ts";
import { importPeer } from "../../deploy/import-peer.ts";

/**
 * Decides whether a trace is exported. `parent` is the flag of the parent span, `undefined` at the start of a
 * trace. The result is the same in every process with the same variables.
 */
export type TraceSampler = (traceId: string, parent: boolean | undefined) => boolean;

export interface TraceSamplerParts {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Logger;
}

/** Names by the specification: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ */
const NAMES = /^(parentbased_)?(always_on|always_off|traceidratio)$/;
const DEFAULT_NAME = "parentbased_always_on";
const DEFAULT_RATIO = 1;

/** The sampler selected by `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`. */
export async function createTraceSampler(parts: TraceSamplerParts): Promise<TraceSampler> {
  const [, parentBased, kind] = NAMES.exec(readName(parts)) ?? [];
  const root = kind === "traceidratio" ? await createRatio(parts) : () => kind === "always_on";
  if (parentBased === undefined) return (traceId) => root(traceId);
  return (traceId, parent) => parent ?? root(traceId);
}

function readName({ env, log }: TraceSamplerParts): string {
  const value = env.OTEL_TRACES_SAMPLER?.trim();
  if (!value) return DEFAULT_NAME;
  const name = value.toLowerCase();
  if (NAMES.test(name)) return name;
  log.warn("OTEL_TRACES_SAMPLER is invalid: its default is used", { value, default: DEFAULT_NAME });
  return DEFAULT_NAME;
}

async function createRatio(parts: TraceSamplerParts): Promise<(traceId: string) => boolean> {
  const name = "@opentelemetry/sdk-trace-base";
  const sdk = await importPeer<typeof import("@opentelemetry/sdk-trace-base")>(name, { cwd: parts.cwd });
  const sampler = new sdk.TraceIdRatioBasedSampler(readRatio(parts));
  const { RECORD_AND_SAMPLED } = sdk.SamplingDecision;
  return (traceId) => sampler.shouldSample(undefined, traceId).decision === RECORD_AND_SAMPLED;
}

function readRatio({ env, log }: TraceSamplerParts): number {
  const value = env.OTEL_TRACES_SAMPLER_ARG?.trim();
  if (!value) return DEFAULT_RATIO;
  const ratio = Number(value);
  if (ratio >= 0 && ratio <= 1) return ratio;
  log.warn("OTEL_TRACES_SAMPLER_ARG is invalid: its default is used", { value, default: DEFAULT_RATIO });
  return DEFAULT_RATIO;
}
