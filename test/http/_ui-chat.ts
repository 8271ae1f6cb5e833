import {
  AbstractChat,
  type ChatInit,
  type ChatState,
  type ChatStatus,
  DefaultChatTransport,
  type DynamicToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from "ai";

/** What `useChat` keeps in React. */
class PlainState implements ChatState<UIMessage> {
  status: ChatStatus = "ready";
  error: Error | undefined;
  messages: UIMessage[];

  constructor(messages: UIMessage[] = []) {
    this.messages = messages;
  }

  pushMessage = (message: UIMessage): void => {
    this.messages = [...this.messages, message];
  };
  popMessage = (): void => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index: number, message: UIMessage): void => {
    this.messages = this.messages.with(index, structuredClone(message));
  };
  snapshot = <T>(thing: T): T => structuredClone(thing);
}

class Chat extends AbstractChat<UIMessage> {
  constructor({ messages, ...init }: ChatInit<UIMessage>) {
    super({ ...init, state: new PlainState(messages) });
  }
}

/** A chat window: the AI SDK's chat, with its transport as it is. */
export function uiChat(
  { url, key }: { readonly url: string; readonly key: string },
  {
    agent,
    id,
    messages,
    fetch,
  }: {
    readonly agent: string;
    readonly id: string;
    readonly messages?: UIMessage[];
    readonly fetch?: typeof globalThis.fetch;
  },
) {
  const transport = new DefaultChatTransport({
    ...{ api: `${url}/chat/${agent}`, headers: { "X-API-Key": key } },
    ...(fetch && { fetch }),
  });
  const chat = new Chat({
    ...{ id, transport },
    ...(messages && { messages }),
    sendAutomaticallyWhen: (given) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(given) ||
      lastAssistantMessageIsCompleteWithToolCalls(given),
  });
  const lastText = (): string =>
    chat.lastMessage!.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  const tools = (): DynamicToolUIPart[] =>
    chat.messages.flatMap(({ parts }) => parts.filter((part) => part.type === "dynamic-tool"));
  return {
    chat,
    lastText,
    tools,
    /** Sends a message, and gives what the last message says then. */
    async say(text: string, messageId?: string): Promise<string> {
      await chat.sendMessage({ parts: [{ type: "text", text }], ...(messageId && { id: messageId }) });
      return chat.error?.message ?? lastText();
    },
    /** The question that is open. */
    asked: () => tools().find(({ state }) => state === "approval-requested" || state === "input-available"),
  };
}
