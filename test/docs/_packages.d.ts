/** Packages of examples that this repository does not have. */
declare module "@ai-sdk/openai";
declare module "@openai/agents";
