import type * as Sdk from "@modelcontextprotocol/server";
import { fillPrompt } from "../../core/agents/shared-texts.ts";
import { PluginError } from "../../core/service/plugin.ts";
import { shownAgents } from "../../core/service/protocol-parts.ts";
import type { McpParts } from "./parts.ts";

type Values = Readonly<Record<string, unknown>>;

/** The prompts of the agents that clients see. */
function promptsOf(parts: McpParts) {
  return shownAgents(parts).flatMap(({ definition }) => definition.prompts ?? []);
}

/** The resources of the agents that clients see. */
function resourcesOf(parts: McpParts) {
  return shownAgents(parts).flatMap(({ definition }) => definition.resources ?? []);
}

/** What agents declare for clients: a service whose agents declare none does not speak of it. */
export function sharedTexts(parts: McpParts): { readonly prompts: boolean; readonly resources: boolean } {
  return { prompts: promptsOf(parts).length > 0, resources: resourcesOf(parts).length > 0 };
}

/** Throws where two agents declare the same: clients would get either. */
export function assertDistinct(parts: McpParts): void {
  const refuseSecond = (what: string, names: readonly string[]): void => {
    const twice = names.find((name, at) => names.indexOf(name) !== at);
    if (twice === undefined) return;
    throw new PluginError(`Plugin "mcp": two agents declare the ${what} "${twice}": rename one of them`);
  };
  refuseSecond(
    "prompt",
    promptsOf(parts).map(({ name }) => name),
  );
  refuseSecond(
    "resource",
    resourcesOf(parts).map(({ uri }) => uri),
  );
}

/** Lists prompts. */
export function listPrompts(parts: McpParts): Values {
  return {
    prompts: promptsOf(parts).map(({ name, description, arguments: declared = {} }) => ({
      ...{ name, description },
      arguments: Object.entries(declared).map(([name, description]) => ({
        name,
        description,
        required: true,
      })),
    })),
  };
}

/** The message that a prompt begins with. */
export function getPrompt(sdk: typeof Sdk, parts: McpParts, { name, arguments: given = {} }: Values): Values {
  const refuse = (why: string): never => {
    throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, why);
  };
  const prompt =
    promptsOf(parts).find((one) => one.name === name) ?? refuse(`There is no prompt "${String(name)}"`);
  const values = given as Readonly<Record<string, string>>;
  const declared = Object.keys(prompt.arguments ?? {});
  const missing = declared.filter((one) => !Object.hasOwn(values, one));
  if (missing.length > 0) refuse(`The prompt "${prompt.name}" needs ${missing.join(", ")}`);
  const unknown = Object.keys(values).filter((one) => !declared.includes(one));
  if (unknown.length > 0) refuse(`The prompt "${prompt.name}" has no ${unknown.join(", ")}`);
  return {
    description: prompt.description,
    messages: [{ role: "user", content: { type: "text", text: fillPrompt(prompt, values) } }],
  };
}

/** Lists resources. */
export function listResources(parts: McpParts): Values {
  return {
    resources: resourcesOf(parts).map(({ content, ...resource }) => ({
      ...resource,
      mimeType: typeOf({ content, ...resource }),
      size: Buffer.byteLength(content),
    })),
  };
}

/** The content of a resource. */
export function readResource(sdk: typeof Sdk, parts: McpParts, { uri }: Values): Values {
  const resource = resourcesOf(parts).find((one) => one.uri === uri);
  if (!resource) throw new sdk.ResourceNotFoundError(String(uri));
  const { content } = resource;
  const shown =
    typeof content === "string" ? { text: content } : { blob: Buffer.from(content).toString("base64") };
  return { contents: [{ uri, mimeType: typeOf(resource), ...shown }] };
}

function typeOf({
  mimeType,
  content,
}: {
  readonly mimeType?: string;
  readonly content: string | Uint8Array;
}) {
  return mimeType ?? (typeof content === "string" ? "text/plain" : "application/octet-stream");
}
