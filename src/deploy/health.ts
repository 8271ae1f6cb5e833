import * as v from "valibot";
import { type Backoff, delays } from "../core/base/backoff.ts";
import { parseJson } from "../core/base/parse-json.ts";
import {
  type HealthCheckConfig,
  HealthCheckConfigSchema,
  type HealthCheckResult,
} from "../core/models/deployment.ts";
import type { DeployTools } from "./tools.ts";

/** Responses to wait for, and how. All times in seconds. */
export interface HealthOptions {
  readonly tools: DeployTools;
  /** Full addresses; all must pass. */
  readonly endpoints: readonly string[];
  readonly config?: Partial<HealthCheckConfig>;
  readonly headers?: Readonly<Record<string, string>>;
  /** The mark of the release: a process with another one belongs to another release. */
  readonly mark?: string | undefined;
  /** A process that reports no mark and started before this time belongs to the old revision. */
  readonly startedAfter?: Date | undefined;
  /** Whether its instances share a database: each is ready only once it has run a probe job there. */
  readonly needsProbe?: boolean;
  /** Failures within this time from the start are attributed to startup. */
  readonly firstWait?: number;
  /** The longest pause between two polls. */
  readonly interval?: number;
  readonly onCheck?: (result: HealthCheckResult) => void;
}

/** Polling during a deployment: every 5 s, after a first wait of 30 s. */
const DEPLOY_POLLING = { firstWait: 30, interval: 5 } as const;

const REQUEST_TIMEOUT = 10;
/** A process measures its uptime with its own clock and rounding. */
const CLOCK_SLACK = 2000;

/** The health check's configuration with its defaults. */
function resolveHealthConfig(config: Partial<HealthCheckConfig> = {}): HealthCheckConfig {
  return v.parse(HealthCheckConfigSchema, config);
}

/**
 * Polls until the service is healthy often enough in a row, or the time limit is reached: the first wait and
 * then `timeout`. Pauses grow from `base_delay` up to the interval.
 */
export async function waitHealthy(options: HealthOptions): Promise<HealthCheckResult> {
  const {
    tools,
    firstWait = DEPLOY_POLLING.firstWait,
    interval = DEPLOY_POLLING.interval,
    onCheck,
  } = options;
  const config = resolveHealthConfig(options.config);
  const delayOf = delays(pausesOf(config, interval));
  const end = tools.now().getTime() + (firstWait + config.timeout) * 1000;
  let passed = 0;
  let failures = 0;
  for (;;) {
    const result = await checkAll(options);
    onCheck?.(result);
    passed = result.status === "healthy" ? passed + 1 : 0;
    if (passed >= config.success_threshold) return result;
    const delay = delayOf(failures);
    if (tools.now().getTime() + delay > end) return result;
    await tools.sleep(delay);
    failures = passed > 0 ? 0 : failures + 1;
  }
}

/** Checks the service, and again after a failure, `max_retries` times at most within `timeout`. */
export async function checkWithRetries(options: HealthOptions): Promise<HealthCheckResult> {
  const { tools } = options;
  const config = resolveHealthConfig(options.config);
  const end = tools.now().getTime() + config.timeout * 1000;
  const delayOf = delays(pausesOf(config));
  for (let retry = 0; ; retry++) {
    const result = await checkAll(options);
    if (result.status === "healthy" || retry >= config.max_retries) return result;
    const delay = delayOf(retry);
    if (tools.now().getTime() + delay > end) return result;
    await tools.sleep(delay);
  }
}

/** The pauses between checks, of which none is longer than so many seconds. */
function pausesOf(
  { base_delay, max_delay, backoff_multiplier }: HealthCheckConfig,
  longest = max_delay,
): Backoff {
  return { first: base_delay * 1000, most: Math.min(max_delay, longest) * 1000, factor: backoff_multiplier };
}

async function checkAll(options: HealthOptions): Promise<HealthCheckResult> {
  let last: HealthCheckResult | undefined;
  for (const endpoint of options.endpoints) {
    last = await checkHealth(endpoint, options);
    if (last.status !== "healthy") return last;
  }
  return (
    last ?? {
      status: "unknown",
      response_time: 0,
      status_code: null,
      error_message: null,
      endpoint: null,
      timestamp: 0,
    }
  );
}

/**
 * One request to a health endpoint: healthy is a 200 whose body says `status: "healthy"`, from the new
 * revision.
 */
async function checkHealth(
  endpoint: string,
  {
    tools,
    headers,
    mark,
    startedAfter,
    needsProbe = false,
  }: Pick<HealthOptions, "tools" | "headers" | "mark" | "startedAfter" | "needsProbe">,
): Promise<HealthCheckResult> {
  const begun = performance.now();
  const timestamp = tools.now().getTime() / 1000;
  const done = (
    status: HealthCheckResult["status"],
    status_code: number | null,
    error_message: string | null,
  ) => ({
    status,
    response_time: Math.round(performance.now() - begun) / 1000,
    status_code,
    error_message,
    endpoint,
    timestamp,
  });
  const limit = AbortSignal.timeout(REQUEST_TIMEOUT * 1000);
  try {
    const response = await tools.fetch(endpoint, { ...(headers ? { headers } : {}), signal: limit });
    const text = await response.text();
    if (response.status !== 200) return done("unhealthy", response.status, `answered ${response.status}`);
    const { status, uptime, probe, release, backup } = toBody(text);
    const isMarked = mark !== undefined && typeof release === "string";
    if (isMarked && release !== mark) return done("unhealthy", 200, "another release still responds");
    if (status !== "healthy")
      return done("unhealthy", 200, `answered with status ${JSON.stringify(status ?? null)}`);
    if (needsProbe && probe !== "done")
      return done("unhealthy", 200, "it has run no probe job: it does not use the database of its secret");
    if (!isMarked && startedAfter !== undefined && typeof uptime === "number") {
      const started = tools.now().getTime() - uptime * 1000;
      if (started < startedAfter.getTime() - CLOCK_SLACK)
        return done("unhealthy", 200, "the previous revision still responds");
    }
    const last = backup?.last_at;
    return {
      ...done("healthy", 200, null),
      ...(last === null || typeof last === "string" ? { last_backup: last } : {}),
    };
  } catch (error) {
    if (tools.signal.aborted) throw tools.signal.reason;
    if (limit.aborted) return done("timeout", null, `no response within ${REQUEST_TIMEOUT} s`);
    return done("error", null, reasonOf(error));
  }
}

function toBody(text: string): {
  status?: unknown;
  uptime?: unknown;
  probe?: unknown;
  release?: unknown;
  backup?: { last_at?: unknown };
} {
  const body = parseJson(text);
  return typeof body === "object" && body !== null ? body : {};
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const { code, message } = cause as NodeJS.ErrnoException;
  return code ?? message ?? String(cause);
}
