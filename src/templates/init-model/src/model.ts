import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { definePlugin } from "agent-control-service/plugin";
import { type ModelReply, type ModelServerRequest, modelServer } from "agent-control-service/testing";

/** Providers, by the variable that has the key: the first that is set counts. All of them speak OpenAI's format. */
const PROVIDERS = [
  { key: "OPENAI_API_KEY", name: "openai", url: "https://api.openai.com/v1", model: "gpt-5-mini" },
  { key: "ANTHROPIC_API_KEY", name: "anthropic", url: "https://api.anthropic.com/v1", model: "claude-haiku-4-5" },
  {
    key: "GEMINI_API_KEY",
    name: "google",
    url: "https://generativelanguage.googleapis.com/v1beta/openai",
    model: "gemini-2.5-flash",
  },
];

/** Parameters of the agent: the service masks their values in logs, errors, events and stored results. */
export const MODEL_KEYS = PROVIDERS.map(({ key }) => ({ name: key, is_environment: true }));

const STAND_IN = "stand-in";

/** What the environment asks for; `undefined` where neither a key nor an endpoint is set. */
function findProvider() {
  const { MODEL, MODEL_URL } = process.env;
  if (MODEL === STAND_IN) return undefined;
  const provider = PROVIDERS.find(({ key }) => process.env[key]);
  const url = MODEL_URL || provider?.url;
  const model = MODEL || provider?.model || "default";
  return url ? { name: provider?.name ?? "model", url, model, apiKey: provider && process.env[provider.key] } : undefined;
}

/**
 * The model of the provider whose key is set. Without one, a stand-in on this machine answers with what `reply` returns.
 * The variables MODEL and MODEL_URL name another model, or another endpoint that speaks OpenAI's format.
 */
export async function openModel(reply: (request: ModelServerRequest) => ModelReply) {
  const { name, url, model, apiKey } = findProvider() ?? {
    name: STAND_IN,
    url: (await modelServer({ reply })).url,
    model: STAND_IN,
    apiKey: undefined,
  };
  // Streams say how many tokens they took only if they are asked.
  return createOpenAICompatible({ name, baseURL: url, includeUsage: true, ...(apiKey && { apiKey }) })(model);
}

export type Model = Awaited<ReturnType<typeof openModel>>;

/** Stops a start in which nobody has asked for the stand-in's answers: a forgotten key must not reach customers. */
export const modelCheck = definePlugin({
  name: "model-check",
  setup({ log }) {
    if (findProvider()) return;
    const keys = PROVIDERS.map(({ key }) => key).join(", ");
    // `svc dev` sets this variable.
    if (process.env.MODEL !== STAND_IN && process.env.SVC_DEV_WORKER === undefined)
      throw new Error(`No model: set one of ${keys}, or MODEL_URL. MODEL=${STAND_IN} starts with made-up answers`);
    log.warn(`a stand-in answers in place of a model: set one of ${keys} for a real one`);
  },
});
