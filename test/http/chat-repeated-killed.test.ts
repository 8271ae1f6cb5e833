// @losses
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
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

describe("a chat request whose service is killed", { timeout: PROCESS_TIME }, () => {
  it.each(Object.entries(CHAT_CLIENTS))(
    "before or after its response has one effect when it is sent again: %s",
    async (_name, clientOf) => {
      const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
      const client = async () => {
        const { url, key } = await access(service.folder);
        return clientOf({ url, key });
      };
      const sent = [
        ["one", "k-1"],
        ["slow two", "k-2"],
        ["ok", "k-3"],
        ["yes", "k-4"],
      ] as const;
      const first: string[] = [];
      for (const [content, key] of sent) {
        const say = await client();
        const response = say("t", content, key).then(
          (text) => text,
          () => "lost",
        );
        // That one is killed before its response, the others after it.
        if (content === "slow two")
          await expect.poll(async () => (await service.send("/jobs/t/cases")).text()).toContain("slow two");
        else first.push(await response);
        await service.kill();
        if (content === "slow two") expect(await response).toBe("lost");
        await service.start();
        if (content !== "slow two") continue;
        const again = (await client())("t", content, key);
        await service.send("/jobs/t/cases");
        await writeFile(join(service.folder, "go"), "");
        first.push(await again);
      }
      const again: string[] = [];
      for (const [content, key] of sent) again.push(await (await client())("t", content, key));

      expect(again).toEqual(first);
      expect(first).toEqual(["said one", "said slow two", "Pay 900 EUR?", "And a tip?"]);
      expect(await readFile(join(service.folder, "effects"), "utf8")).toBe(
        "asked one\nasked slow two\npaid\n",
      );
      const cases = (await (await service.send("/jobs/t/cases")).json()) as {
        name: string;
        status: string;
      }[];
      expect(cases.map(({ name, status }) => `${name}: ${status}`)).toEqual([
        "one: completed",
        "slow two: completed",
        "ok: awaiting",
      ]);
      await service.end();
    },
  );
});
