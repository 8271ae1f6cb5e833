/** Packages of examples that this repository does not have. */
declare module "openai";
declare module "@ai-sdk/openai";
