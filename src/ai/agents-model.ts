import type { StepInfo } from "../core/agents/run-context.ts";
import type { StepReport } from "../core/agents/step-report.ts";
import { mayPass, withPause } from "./failures.ts";
import { fromRecord, toRecord } from "./json-codec.ts";
import type { Durable, DurableOptions } from "./options.ts";

/** What a model of the OpenAI Agents SDK has. */
export interface AgentsModelLike {
  getResponse(request: never): Promise<unknown>;
  getStreamedResponse(request: never): AsyncIterable<unknown>;
}

type Fields = Readonly<Record<string, unknown>>;

/** A model of the OpenAI Agents SDK whose calls are steps of a job or case. */
export function durableAgentsModel<M extends AgentsModelLike>(
  model: M,
  handle: Durable,
  options: DurableOptions,
): M {
  const { name = "model", retries = 2, model: named = nameOf(model), ...rest } = options;
  // Only models of the responses API take headers; others would send them in the body.
  const takesHeaders = "_client" in model;
  const call = async (given: Fields, send: (request: Fields, info: StepInfo) => Promise<unknown>) => {
    const { signal: _, tracing: _tracing, ...request } = given;
    const ask = async (_request: unknown, info: StepInfo) => {
      try {
        return toRecord(await send(forAttempt(given, info, takesHeaders), info));
      } catch (error) {
        throw withPause(error);
      }
    };
    const about = { ...(named !== undefined && { model: named }), provider: "openai" };
    const made = await handle.model(name, toRecord(request), ask, {
      ...{ ...rest, ...about, retries },
      retryIf: mayPass,
      read: readResponse,
    });
    return fromRecord(made) as Fields;
  };

  const getResponse = (given: Fields) =>
    call(given, async (request) => (await model.getResponse(request as never)) as object);

  async function* getStreamedResponse(given: Fields): AsyncGenerator<unknown> {
    const { events } = await call(given, (request, info) =>
      collect(model.getStreamedResponse(request as never), info),
    );
    // What follows from an event must not happen before the call is recorded.
    yield* events as unknown[];
  }

  return new Proxy(model, {
    get(target, property) {
      if (property === "getResponse") return getResponse;
      if (property === "getStreamedResponse") return getStreamedResponse;
      // The attempts are those of the step.
      if (property === "getRetryAdvice") return undefined;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** With the attempt's signal and, where the API takes headers, the key that is the same at every attempt. */
function forAttempt(given: Fields, info: StepInfo, takesHeaders: boolean): Fields {
  const signal = given.signal ? AbortSignal.any([given.signal as AbortSignal, info.signal]) : info.signal;
  if (!takesHeaders) return { ...given, signal };
  const settings = (given.modelSettings ?? {}) as Fields;
  const data = (settings.providerData ?? {}) as Fields;
  const headers = { ...(data.extra_headers as object | undefined), "Idempotency-Key": info.idempotencyKey };
  return {
    ...given,
    signal,
    modelSettings: { ...settings, providerData: { ...data, extra_headers: headers } },
  };
}

/** Reads a stream to its end, and emits its text as it comes; the last event has the whole response. */
async function collect(stream: AsyncIterable<unknown>, info: StepInfo): Promise<object> {
  const events: Fields[] = [];
  let response: Fields = {};
  for await (const event of stream as AsyncIterable<Fields>) {
    if (event.type === "output_text_delta") info.emit(event.delta);
    if (event.type === "response_done") response = event.response as Fields;
    // Those of the provider repeat the others.
    if (event.type !== "model") events.push(event);
  }
  return { events, ...response };
}

function readResponse(answer: unknown): StepReport {
  const { usage, responseId, id, output } = (answer ?? {}) as Fields;
  const { inputTokens, outputTokens, inputTokensDetails, outputTokensDetails } = (usage ?? {}) as Fields;
  const sum = (details: unknown, name: string): number =>
    [details].flat().reduce<number>((all, one) => all + Number((one as Fields | undefined)?.[name] ?? 0), 0);
  const said = responseId ?? id;
  const calls = Array.isArray(output) && output.some((item: Fields) => item.type === "function_call");
  return {
    finishReason: calls ? "tool_calls" : "stop",
    ...(typeof said === "string" && { responseId: said }),
    ...(typeof inputTokens === "number" && {
      usage: {
        inputTokens,
        outputTokens: Number(outputTokens ?? 0),
        cachedTokens: sum(inputTokensDetails, "cached_tokens"),
        reasoningTokens: sum(outputTokensDetails, "reasoning_tokens"),
      },
    }),
  };
}

function nameOf(model: object): string | undefined {
  const { _model: name } = model as { readonly _model?: unknown };
  return typeof name === "string" ? name : undefined;
}
