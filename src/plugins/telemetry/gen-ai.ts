import type { ModelFacts } from "../../core/models/model-use.ts";
import type { AttemptEntry, CallEntry } from "../../core/models/run-entry.ts";
import { Histogram } from "./metrics.ts";
import type { FinishedSpan } from "./otel-exporter.ts";

/*
 * Names and values as the semantic conventions of OpenTelemetry for generative AI give them:
 * https://github.com/open-telemetry/semantic-conventions-genai
 */

type Attributes = FinishedSpan["attributes"];

/** What the span of a step is called by what the step does, and its attributes; nothing for other steps. */
export function genAiSpan(entry: CallEntry): Pick<FinishedSpan, "name" | "kind" | "attributes"> | undefined {
  const error = entry.error && { "error.type": entry.error.name };
  if (entry.kind === "tool") {
    const attributes = {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": entry.name,
      "gen_ai.tool.call.id": entry.key,
      "gen_ai.tool.type": "function",
      ...error,
    };
    return { name: `execute_tool ${entry.name}`, kind: "internal", attributes };
  }
  if (entry.kind === "retrieval") {
    const attributes = {
      "gen_ai.operation.name": "retrieval",
      "gen_ai.data_source.id": entry.name,
      ...error,
    };
    return { name: `retrieval ${entry.name}`, kind: "client", attributes };
  }
  if (entry.kind !== "model") return undefined;
  const { model = {} } = entry;
  const requested = model.requested ?? model.name;
  const { response_id, finish_reason, first_token_ms } = model;
  return {
    name: requested === undefined ? "chat" : `chat ${requested}`,
    kind: "client",
    attributes: {
      ...labelsOf(model),
      ...requestOf(entry.input),
      "gen_ai.response.id": response_id,
      "gen_ai.response.finish_reasons": finish_reason === undefined ? undefined : [finish_reason],
      "gen_ai.response.time_to_first_chunk": first_token_ms === undefined ? undefined : first_token_ms / 1000,
      "gen_ai.usage.input_tokens": model.input_tokens,
      "gen_ai.usage.output_tokens": model.output_tokens,
      "gen_ai.usage.cache_read.input_tokens": model.cached_tokens,
      "gen_ai.usage.cache_creation.input_tokens": model.cache_write_tokens,
      "gen_ai.usage.reasoning.output_tokens": model.reasoning_tokens,
      ...error,
    },
  };
}

/** What both spans and metrics of a call have. */
function labelsOf(model: ModelFacts): Record<string, string> {
  const { requested = model.name, name, provider = "unknown" } = model;
  return {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": provider,
    ...(requested !== undefined && { "gen_ai.request.model": requested }),
    ...(name !== undefined && { "gen_ai.response.model": name }),
  };
}

/** Settings of a request, as most APIs and the AI SDK call them. */
function requestOf(input: unknown): Attributes {
  const request = (typeof input === "object" && input !== null ? input : {}) as Readonly<
    Record<string, unknown>
  >;
  const first = (...names: readonly string[]) => {
    const value = names.map((name) => request[name]).find((one) => one !== undefined && one !== null);
    return typeof value === "number" ? value : undefined;
  };
  return {
    "gen_ai.request.max_tokens": first(
      "max_tokens",
      "max_completion_tokens",
      "max_output_tokens",
      "maxOutputTokens",
    ),
    "gen_ai.request.temperature": first("temperature"),
    "gen_ai.request.top_p": first("top_p", "topP"),
    "gen_ai.request.seed": first("seed"),
  };
}

const SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS = Array.from({ length: 14 }, (_, at) => 4 ** at);

/** Metrics of calls of models; `observe` takes the lines of run logs. */
export function genAiMetrics() {
  const usage = new Histogram("gen_ai.client.token.usage", "Number of input and output tokens used", TOKENS, {
    unit: "{token}",
  });
  const duration = new Histogram("gen_ai.client.operation.duration", "GenAI operation duration", SECONDS, {
    unit: "s",
  });
  const first = new Histogram(
    "gen_ai.client.operation.time_to_first_chunk",
    "Time to receive the first chunk",
    SECONDS,
    { unit: "s" },
  );
  const observe = (entry: CallEntry | AttemptEntry): void => {
    const { kind, model = {}, started_at, at } = entry;
    if (kind !== "model") return;
    const labels = labelsOf(model);
    const failure = typeof entry.error === "string" ? "attempt failed" : entry.error?.name;
    const seconds = Math.max(0, Date.parse(at) - Date.parse(started_at ?? at)) / 1000;
    duration.observe(failure === undefined ? labels : { ...labels, "error.type": failure }, seconds);
    if (model.first_token_ms !== undefined) first.observe(labels, model.first_token_ms / 1000);
    for (const type of ["input", "output"] as const) {
      const tokens = model[`${type}_tokens`];
      if (tokens !== undefined) usage.observe({ ...labels, "gen_ai.token.type": type }, tokens);
    }
  };
  return { metrics: [usage, duration, first], observe };
}
