/** A message of the conversation that a model is asked to continue. */
export interface ModelMessage {
  readonly role: string;
  /** Its text; empty where it has none. */
  readonly text: string;
  /** Tools that the model asked for in it. */
  readonly toolCalls: readonly { readonly id: string; readonly name: string; readonly arguments: unknown }[];
  /** The call that it is the result of. */
  readonly toolCallId?: string;
}

/** What a model is asked. */
export interface ModelServerRequest {
  readonly model: string;
  readonly messages: readonly ModelMessage[];
  /** Names of the tools that it may ask for. */
  readonly tools: readonly string[];
  /** The last message. */
  readonly last: ModelMessage;
  /** The value of the header `Idempotency-Key`. */
  readonly idempotencyKey: string | undefined;
  /** As it was sent. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** What an answer is made of. */
export interface AnswerParts {
  readonly request: ModelServerRequest;
  /** Depends on the request only. */
  readonly id: string;
  readonly text?: string;
  readonly toolCalls?: readonly { readonly name: string; readonly arguments: unknown }[];
}

/** A tool that the model asks for, as both APIs name it. */
export interface AskedTool {
  readonly id: string;
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

export function askedTools({ id, toolCalls = [] }: AnswerParts): AskedTool[] {
  return toolCalls.map((call, at) => ({
    id: `call_${id}_${at}`,
    name: call.name,
    arguments: JSON.stringify(call.arguments),
  }));
}

/** Tokens: about four characters each. */
export function countTokens({ request, text = "", toolCalls = [] }: AnswerParts): {
  readonly input: number;
  readonly output: number;
} {
  const count = (value: unknown) => Math.ceil(JSON.stringify(value).length / 4);
  return { input: count(request.messages), output: count([text, toolCalls]) };
}

/** The words of a text, with the blanks after them. */
export function wordsOf(text: string): string[] {
  return text.split(/(?<= )/);
}
