// @losses
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { access, PROCESS_TIME, project } from "../cli/_svc.ts";
import { ServiceProcess } from "../runs/_process.ts";
import { CHAT_CLIENTS } from "./_chat-clients.ts";

/** Notes each payment and each call of a model in a file; a message with "slow" in it is answered after a file is there. */
const CONTROLLER = `
import { appendFileSync, existsSync } from "node:fs";
import { createServer, defineChat } from "agent-control-service";
import { a2a } from "agent-control-service/a2a";
import { agUi } from "agent-control-service/agui";
import { mcp } from "agent-control-service/mcp";

const asker = defineChat({
  name: "Asker",
  version: "1.0.0",
  async reply({ message, turn }) {
    if (message === "ok") {
      const fields = [{ name: "approved", field_type: "BooleanField" }];
      const { approved } = await turn.ask("pay", { question: "Pay 900 EUR?", fields });
      if (!approved) return "not paid";
      await turn.step("pay", () => appendFileSync("effects", "paid\\n"));
      const more = await turn.ask("tip", { question: "And a tip?", fields });
      return more.approved ? "PAID with a tip" : "PAID";
    }
    return turn.step("model", async () => {
      while (message.includes("slow") && !existsSync("go")) await new Promise((done) => setTimeout(done, 20));
      appendFileSync("effects", \`asked \${message}\\n\`);
      return \`said \${message}\`;
    });
  },
});
export default createServer({ agents: [asker], plugins: [a2a(), agUi(), mcp()] });
`;

const SENT = ["one", "slow two", "ok", "yes"];
const clients = Object.keys(CHAT_CLIENTS);
/** For each client the same. */
const ofAll = <T>(value: T): Record<string, T> => Object.fromEntries(clients.map((name) => [name, value]));

it(
  "has one effect when it is sent again, with each client: a chat request whose service is killed before or after its response",
  async () => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
    const send = (content: string, signal?: AbortSignal) => {
      const said = clients.map(async (name, at) => {
        const say = CHAT_CLIENTS[name]!(await access(service.folder));
        return [name, await say(`t-${at}`, content, `k-${at}-${SENT.indexOf(content)}`, signal)] as const;
      });
      return said.map((response) => response.catch(() => ["", "lost"] as const));
    };
    const toNames = async (responses: ReturnType<typeof send>) =>
      Object.fromEntries(await Promise.all(responses));
    const shown = async (what: "name" | "status"): Promise<string[][]> => {
      const threads = clients.map(async (_, at) => {
        const cases = await (await service.send(`/jobs/t-${at}/cases`)).json();
        return (cases as Record<"name" | "status", string>[]).map((one) => one[what]);
      });
      return Promise.all(threads);
    };
    const restart = async (): Promise<void> => {
      await service.kill();
      await service.start();
    };

    const first: Record<string, string>[] = [];
    for (const content of SENT) {
      const left = new AbortController();
      let responses = send(content, left.signal);
      if (content === "slow two") {
        // Those of this message are killed before their responses, the others after them.
        const begun = async () => (await shown("name")).every((names) => names.includes(content));
        await expect.poll(begun).toBe(true);
        await restart();
        // One of the clients would wait for the service.
        left.abort();
        expect(await Promise.all(responses)).toEqual(clients.map(() => ["", "lost"]));
        responses = send(content);
        await writeFile(join(service.folder, "go"), "");
        first.push(await toNames(responses));
      } else {
        first.push(await toNames(responses));
        await restart();
      }
    }
    const again: Record<string, string>[] = [];
    for (const content of SENT) again.push(await toNames(send(content)));

    expect(again).toEqual(first);
    expect(first).toEqual(["said one", "said slow two", "Pay 900 EUR?", "And a tip?"].map(ofAll));
    const effects = (await readFile(join(service.folder, "effects"), "utf8")).split("\n").filter(Boolean);
    const once = ["asked one", "asked slow two", "paid"];
    expect(effects.sort()).toEqual(once.flatMap((effect) => clients.map(() => effect)));
    expect(await shown("name")).toEqual(clients.map(() => ["one", "slow two", "ok"]));
    expect(await shown("status")).toEqual(clients.map(() => ["completed", "completed", "awaiting"]));
    await service.end();
  },
  PROCESS_TIME,
);
