import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
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

/**
 * The model of the provider whose key is set. Without one, a stand-in on this machine answers with what `reply` returns.
 * The variables MODEL and MODEL_URL name another model, or another endpoint that speaks OpenAI's format.
 */
export async function openModel(reply: (request: ModelServerRequest) => ModelReply) {
  const { MODEL, MODEL_URL } = process.env;
  const provider = PROVIDERS.find(({ key }) => process.env[key]);
  const apiKey = provider && process.env[provider.key];
  const baseURL = MODEL_URL || provider?.url || (await modelServer({ reply })).url;
  const name = provider?.name ?? "stand-in";
  // Streams say how many tokens they took only if they are asked.
  const open = createOpenAICompatible({ name, baseURL, includeUsage: true, ...(apiKey && { apiKey }) });
  return open(MODEL || provider?.model || "stand-in");
}

export type Model = Awaited<ReturnType<typeof openModel>>;
