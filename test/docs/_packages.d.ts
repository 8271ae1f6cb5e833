/** Packages of examples that this repository does not have. */
declare module "@ai-sdk/openai";
declare module "@ai-sdk/react";
declare module "@openai/agents" {
  export class Agent {
    constructor(options: object);
  }
  export const OpenAIResponsesModel: typeof import("@openai/agents-openai").OpenAIResponsesModel;
  export function tool(options: object): { readonly type: "function"; readonly name: string };
  export function run(agent: Agent, input: unknown): Promise<{ finalOutput: unknown }>;
}
