import { readAnswer } from "./model-answer.ts";
import { withContents } from "./model-files.ts";
import { prices } from "./model-prices.ts";
import type {
  JobHandle,
  ModelCall,
  ModelOptions,
  StepFunction,
  StepInfo,
  StepOptions,
} from "./run-context.ts";
import type { ModelUsage, StepReport } from "./step-report.ts";

/** Runs a step of a job or case. */
type RunStep = <T>(name: string, fn: StepFunction<T>, options: StepOptions) => Promise<T>;

const LIST_PRICES = prices(prices.list);
/** Characters of text that make about one token. */
const CHARACTERS_PER_TOKEN = 4;

/** A step of kind `model`: what its answer says of itself is recorded with it, and what it costs. */
export function callModel<Request, Answer>(
  { step, open }: { readonly step: RunStep; readonly open: JobHandle["open"] },
  name: string,
  request: Request,
  call: ModelCall<Request, Answer>,
  options: ModelOptions<Answer> = {},
): Promise<Answer> {
  const { cost = LIST_PRICES, estimate, model: named, provider, read = readAnswer, ...rest } = options;
  const requested = named ?? nameIn(request);
  const about = { requested, provider };

  const priced = ({ usage, model = requested }: StepReport): StepReport => {
    if (!usage || model === undefined) return {};
    const price =
      cost(toUsage(usage), { model, provider }) ??
      // An alias may have a price that the model behind it has not.
      (requested === undefined ? undefined : cost(toUsage(usage), { model: requested, provider }));
    return price === undefined ? {} : { cost: price };
  };
  const fn = async (info: StepInfo): Promise<Answer> => {
    const watch = watchReports(info);
    info.report(withoutUndefined(about));
    try {
      const answer = await call(await withContents(request, (file) => open(file).bytes()), watch.info);
      const said = { ...watch.report, ...read(answer) };
      info.report(said.cost === undefined ? { ...said, ...priced(said) } : said);
      return answer;
    } catch (error) {
      // Providers charge nothing for a request that they refuse; for any other failure they may.
      if (watch.report.cost === undefined)
        info.report(watch.report.usage ? priced(watch.report) : isRefused(error) ? { cost: 0 } : {});
      throw error;
    }
  };
  const before = estimate ?? estimateOf(request, (usage) => priced({ usage }).cost);
  return step(name, fn, {
    ...rest,
    kind: "model",
    input: request,
    ...(before !== undefined && { cost: before }),
  });
}

/** What a call reports itself counts, and the first chunk that it emits is its first token. */
function watchReports(info: StepInfo) {
  const began = performance.now();
  let isFirst = true;
  const watch = {
    report: {} as StepReport,
    info: {
      ...info,
      emit: (chunk: unknown) => {
        if (isFirst && watch.report.firstTokenMs === undefined)
          watch.info.report({ firstTokenMs: performance.now() - began });
        isFirst = false;
        info.emit(chunk);
      },
      report: (report: StepReport) => {
        info.report(report);
        watch.report = { ...watch.report, ...report };
      },
    },
  };
  return watch;
}

/** By the length of the request, and the number of tokens that its answer may have. */
function estimateOf(request: unknown, price: (usage: ModelUsage) => number | undefined): number | undefined {
  if (typeof request !== "object" || request === null) return undefined;
  const { max_tokens, max_completion_tokens, max_output_tokens, maxOutputTokens } = request as Record<
    string,
    unknown
  >;
  const most = max_tokens ?? max_completion_tokens ?? max_output_tokens ?? maxOutputTokens;
  const outputTokens = typeof most === "number" && most > 0 ? most : 0;
  return price({ inputTokens: Math.ceil(lengthOf(request) / CHARACTERS_PER_TOKEN), outputTokens });
}

function lengthOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return 0;
  let length = 0;
  for (const one of Object.values(value)) length += lengthOf(one);
  return length;
}

function nameIn(request: unknown): string | undefined {
  const model = (request as { model?: unknown } | null)?.model;
  return typeof model === "string" ? model : undefined;
}

/** Whether a provider has refused the request, by the status that errors of most libraries have. */
function isRefused(error: unknown): boolean {
  const { status, statusCode } = (error ?? {}) as { status?: unknown; statusCode?: unknown };
  const code = status ?? statusCode;
  return typeof code === "number" && code >= 400;
}

function toUsage(usage: Partial<ModelUsage>): ModelUsage {
  return { ...usage, inputTokens: usage.inputTokens ?? 0, outputTokens: usage.outputTokens ?? 0 };
}

function withoutUndefined(report: Readonly<Record<string, string | undefined>>): StepReport {
  return Object.fromEntries(Object.entries(report).filter(([, value]) => value !== undefined));
}
