import { notKnown } from "../core/base/not-known.ts";

/** Whether a person must approve a call: always, or by its input; a text is the question. */
export type Approval<Input = never> =
  | boolean
  | string
  | ((input: Input) => boolean | string | Promise<boolean | string>);

/** What `durableTools` adds to a tool. */
export interface DurableToolOptions<Input = never> {
  /** A person approves each call before it is made; the question stays open for days if necessary. @default false */
  readonly approval?: Approval<Input>;
  /**
   * Whether the tool makes steps, questions or children itself, with the job or case that it closes over: then its call is
   * not a step. @default false
   */
  readonly steps?: boolean;
}

/** A tool that is given with options; what it is called with decides the type of `approval`. */
export interface ToolWithOptions<Input> extends DurableToolOptions<NoInfer<Input>> {
  readonly execute?: ((input: Input, details: never) => unknown) | undefined;
}

/** Names in tools that neither their library nor `durableTools` knows. */
export type UnknownToolOption<Tools> = {
  [Name in keyof Tools]: Tools[Name] extends infer Tool ? UnknownToolName<Tool> : never;
}[keyof Tools];
/** The same, of one tool. */
export type UnknownToolName<Tool> =
  // Nothing is known of a tool of a package without types.
  0 extends 1 & Tool
    ? never
    : Tool extends unknown
      ? Exclude<keyof Tool & string, ToolName | UnlistedToolName | keyof DurableToolOptions>
      : never;

/** Refuses a call whose tools have unknown options: there is nothing to pass. */
export type NoUnknownOptions<Unknown extends string> = [Unknown] extends [never]
  ? []
  : [refused: `${Unknown} is not an option of durableTools`];

/** The same, for a list of tools of the OpenAI Agents SDK; those that it hosts have options of their own. */
export type UnknownFunctionOption<Tool> =
  // Nothing is known of a tool of a package without types.
  0 extends 1 & Tool
    ? never
    : Tool extends { readonly type: "function" }
      ? Exclude<keyof Tool & string, FunctionToolName | UnlistedToolName | keyof DurableToolOptions>
      : never;

/** What tools of the AI SDK 5, 6 and 7 have. */
const TOOL_NAMES = [
  ...["type", "id", "name", "args", "description", "title", "metadata", "strict", "providerOptions"],
  ...["inputSchema", "inputExamples", "outputSchema", "contextSchema", "execute", "needsApproval"],
  ...["toModelOutput", "onInputStart", "onInputDelta", "onInputAvailable", "supportsDeferredResults"],
  ...["isProviderExecuted", "sandbox"],
] as const;
/** A name that tools of the AI SDK have. */
export type ToolName = (typeof TOOL_NAMES)[number];

/** What function tools of the OpenAI Agents SDK have. */
const FUNCTION_TOOL_NAMES = [
  ...["type", "name", "description", "parameters", "strict", "deferLoading", "providerData", "invoke"],
  ...["allowedCallers", "outputSchema", "errorFunction", "needsApproval", "isEnabled", "timeoutMs"],
  ...[
    "timeoutBehavior",
    "timeoutErrorFunction",
    "inputGuardrails",
    "outputGuardrails",
    "customDataExtractor",
  ],
] as const;
/** A name that function tools of the OpenAI Agents SDK have. */
export type FunctionToolName = (typeof FUNCTION_TOOL_NAMES)[number];

/** What libraries add for themselves, or to try it. */
export type UnlistedToolName = `_${string}` | `experimental_${string}`;

/** Throws if a tool has an option that would be without effect: a misspelled `approval` must not mean "allowed". */
export function checkTool(name: string, tool: object): void {
  const { execute } = tool as { readonly execute?: unknown };
  check(name, tool, { names: TOOL_NAMES, isOurs: typeof execute === "function" });
}

/** The same, for a tool of the OpenAI Agents SDK. */
export function checkFunctionTool(tool: object): void {
  const { name, type, invoke } = tool as {
    readonly name?: unknown;
    readonly type?: unknown;
    readonly invoke?: unknown;
  };
  const isOurs = type === "function" && typeof invoke === "function";
  check(String(name), tool, { names: isOurs ? FUNCTION_TOOL_NAMES : undefined, isOurs });
}

const OWN_NAMES = ["approval", "steps"] as const;
const SUGGESTED = [...OWN_NAMES, "needsApproval"];

function check(
  tool: string,
  given: object,
  { names, isOurs }: { readonly names: readonly string[] | undefined; readonly isOurs: boolean },
): void {
  const refuse = (problem: string): never => {
    throw new TypeError(`The tool "${tool}" cannot be used: ${problem}`);
  };
  for (const name of Object.keys(given)) {
    if (OWN_NAMES.includes(name as never)) {
      if (!isOurs) refuse(`${name} has no effect, because the tool is not called in this process`);
    } else if (names && !names.includes(name) && !/^(?:_|experimental_)/.test(name)) {
      refuse(`its option ${name} ${notKnown(name, SUGGESTED)}`);
    }
  }
  const { approval, steps } = given as { readonly approval?: unknown; readonly steps?: unknown };
  const isRule = typeof approval === "boolean" || typeof approval === "function" || isQuestion(approval);
  if ("approval" in given && !isRule)
    refuse("approval must be true, false, the question as text, or a function that returns one of these");
  if (steps !== undefined && typeof steps !== "boolean") refuse("steps must be true or false");
}

function isQuestion(value: unknown): boolean {
  return typeof value === "string" && value.trim() !== "";
}
