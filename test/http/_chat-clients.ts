import { HttpAgent } from "@ag-ui/client";
import { connect, messageOf, send, shown } from "../a2a/_client.ts";
import { chatWith } from "./_asker.ts";
import { uiChat } from "./_ui-chat.ts";

interface Address {
  readonly url: string;
  readonly key: string;
}

/** Says something in a thread of the agent `asker`, with an id; gives the answer, or what the agent asks. */
type Say = (thread: string, content: string, id: string) => Promise<string>;

const firstLine = (text: string | null | undefined): string => (text ?? "").split("\n", 1)[0]!;

/** The official clients of the protocols that chat agents speak. */
export const CHAT_CLIENTS: Readonly<Record<string, (address: Address) => Say>> = {
  OpenAI: (address) => async (thread, content, id) =>
    firstLine((await chatWith(address)(thread, content, id)).text),
  "AI SDK": (address) => async (thread, content, id) => {
    const window = uiChat(address, { agent: "asker", id: thread });
    const text = await window.say(content, id);
    if (window.chat.error) throw window.chat.error;
    const asked = window.asked()?.input as { readonly question: string } | undefined;
    return text === "" ? asked!.question : text;
  },
  "AG-UI":
    ({ url, key }) =>
    async (threadId, content, id) => {
      const agent = new HttpAgent({
        url: `${url}/ag-ui/asker`,
        ...{ threadId, headers: { "X-API-Key": key } },
      });
      agent.addMessage({ id, role: "user", content });
      let end: { result?: unknown; outcome?: { interrupts?: { message?: string }[] } } | undefined;
      await agent.runAgent(
        {},
        {
          onRunFinishedEvent: ({ event }) => {
            end = event as never;
          },
        },
      );
      if (!end) throw new Error("The run has no end");
      return end.outcome?.interrupts?.[0]?.message ?? String(end.result);
    },
  A2A: (address) => async (contextId, text, id) => {
    const client = await connect(address, "JSONRPC", "asker");
    const { says, artifacts } = shown(await send(client, { ...messageOf(id, [{ text }]), contextId }));
    return String(says[0] ?? artifacts.Result);
  },
};
