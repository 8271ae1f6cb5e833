import type { StepInfo } from "../core/agents/run-context.ts";
import { mayPass, withPause } from "./failures.ts";
import { fromRecord, toRecord } from "./json-codec.ts";
import type { Durable, DurableOptions } from "./options.ts";

/** What a model of the AI SDK has, of any version of its specification. */
export interface LanguageModelLike {
  readonly specificationVersion: string;
  readonly provider: string;
  readonly modelId: string;
  doGenerate(options: never): PromiseLike<unknown>;
  doStream(options: never): PromiseLike<unknown>;
}

type Fields = Readonly<Record<string, unknown>>;

interface CallParts {
  readonly abortSignal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

interface StreamPart {
  readonly type: string;
  readonly id?: string;
  readonly delta?: string;
}

/** A model of the AI SDK whose calls are steps of a job or case. */
export function durableLanguageModel<M extends LanguageModelLike>(
  model: M,
  handle: Durable,
  options: DurableOptions,
): M {
  const { name = "model", retries = 2, model: named = model.modelId, ...rest } = options;
  const call = async <T>(given: CallParts, send: (parts: CallParts, info: StepInfo) => Promise<T>) => {
    const { abortSignal, headers: _, ...request } = given;
    const ask = async (_request: unknown, info: StepInfo) => {
      const signal = abortSignal ? AbortSignal.any([abortSignal, info.signal]) : info.signal;
      const headers = { ...given.headers, "Idempotency-Key": info.idempotencyKey };
      try {
        return toRecord(await send({ ...given, abortSignal: signal, headers }, info));
      } catch (error) {
        throw withPause(error);
      }
    };
    const about = { model: named, provider: providerOf(model.provider) };
    const made = await handle.model(name, request, ask, { ...rest, ...about, retries, retryIf: mayPass });
    return fromRecord(made) as T;
  };

  const doGenerate = (given: CallParts) =>
    call(given, async (parts) => withoutBodies((await model.doGenerate(parts as never)) as Fields));

  const doStream = async (given: CallParts) => {
    const recorded = await call(given, async (parts, info) => {
      const { stream } = (await model.doStream(parts as never)) as { stream: ReadableStream<StreamPart> };
      return collect(stream, info);
    });
    // What follows from a part must not happen before the call is recorded.
    const stream = new ReadableStream<StreamPart>({
      start(controller) {
        for (const part of recorded.parts) controller.enqueue(part);
        controller.close();
      },
    });
    return { stream };
  };

  return new Proxy(model, {
    get(target, property) {
      if (property === "doGenerate") return doGenerate;
      if (property === "doStream") return doStream;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Reads a stream to its end, and emits its text as it comes. */
async function collect(stream: ReadableStream<StreamPart>, info: StepInfo) {
  const began = performance.now();
  const parts: StreamPart[] = [];
  let isFirst = true;
  let finish: Fields = {};
  let response: Fields = {};
  for await (const part of stream) {
    if (part.type === "error") throw (part as { error?: unknown }).error;
    if (part.type === "raw") continue;
    const isDelta = part.type.endsWith("-delta");
    if (isDelta && isFirst) {
      isFirst = false;
      info.report({ firstTokenMs: performance.now() - began });
    }
    if (part.type === "text-delta" && part.delta) info.emit(part.delta);
    if (part.type === "reasoning-delta" && part.delta) info.emit({ type: "reasoning", text: part.delta });
    if (part.type === "finish") finish = part as unknown as Fields;
    if (part.type === "response-metadata") response = part as unknown as Fields;
    const last = parts.at(-1);
    const isSame = isDelta && last?.type === part.type && last.id === part.id;
    if (isSame) parts[parts.length - 1] = { ...last, delta: `${last.delta}${part.delta}` };
    else parts.push(part);
  }
  const { usage, finishReason } = finish;
  // Said once more where an answer that is not streamed says it.
  return { parts, usage, finishReason, response: { id: response.id, modelId: response.modelId } };
}

/** What was sent and received as it was is long, and recorded in another form. */
function withoutBodies({ request: _request, response, ...result }: Fields): Fields {
  const { headers: _headers, body: _body, ...rest } = (response ?? {}) as Fields;
  return { ...result, response: rest };
}

/** `openai.chat` of the AI SDK is `openai`. */
function providerOf(provider: string): string {
  return provider.split(".", 1)[0]!;
}
