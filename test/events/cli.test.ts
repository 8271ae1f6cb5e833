// @alone
import { events } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { main } from "../../src/cli/main.ts";
import { CONTROL_SYSTEM } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";
import { beginSvc, project } from "../cli/_svc.ts";
import { sharedControl } from "./_control.ts";
import { workThrough } from "./_work.ts";

const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";
const agent = defineAgent({ name: "Greeter", version: "1.0.0", methods: { job_start: { run: () => null } } });
export default createServer({ agents: [agent] });
`;

const shared = sharedControl();

/** Runs a command as the program does, in this process. */
async function svc(server: TestServer, ...argv: string[]): Promise<{ code: number; out: string }> {
  const out: string[] = [];
  const code = await main(argv, {
    argv,
    self: [],
    cwd: server.dataDir,
    env: { SERVICE_URL: server.url, SERVICE_API_KEY: server.key },
    print: (line) => void out.push(line),
    note: (line) => void out.push(line),
    interactive: false,
    platforms: {},
  });
  return { code, out: out.join("\n") };
}

it("svc events lists, sends again and drops dead letters of a running service", {
  timeout: 60_000,
}, async () => {
  await shared().obey({ mode: "400", match: '"index":' });
  await using server = await testServer({
    agents: [greeter],
    account: shared().account,
    plugins: [events({ backoff: { initial: 0.02, max: 0.2 } })],
  });
  await workThrough(server.service, "job-1");
  const control = server.service.get(CONTROL_SYSTEM);
  await expect.poll(() => control.counts()).toMatchObject({ waiting: 0, dead: 2 });
  await shared().obey({ mode: "ok" });
  const id = (await control.list()).items[0]?.id ?? "";

  const listed = await svc(server, "events", "list");
  const dropped = await svc(server, "events", "drop", id);
  const retried = await svc(server, "events", "retry", "--all");
  const nothing = await svc(server, "events", "retry");

  expect(listed).toMatchObject({
    code: 0,
    out: expect.stringContaining("0 waiting, 2 dead, 5 delivered"),
  });
  expect(listed.out).toContain("agent.case.update");
  expect(dropped).toMatchObject({ code: 0, out: "1 message removed" });
  expect(retried).toMatchObject({ code: 0, out: "1 message will be sent again" });
  expect(nothing.code).toBe(2);
  await expect.poll(() => control.counts()).toMatchObject({ waiting: 0, dead: 0, delivered: 6 });
});

it("svc start --control runs a service with a control system that receives its events", async () => {
  const cwd = await project({ "controller.ts": CONTROLLER });
  const service = beginSvc(["start", "controller.ts", "--port", "0", "--control"], { cwd });
  const [, url] = await service.prints(/at (http:\/\/127[^/]+)\//);

  const types = async () => {
    const response = await fetch(`${url}/_control/received`);
    const { items } = (await response.json()) as { items: { body: { event_type: string } }[] };
    return items.map((item) => item.body.event_type);
  };
  await expect.poll(types).toEqual(["server.register", "agent.register"]);
  const page = await (await fetch(`${url}/`)).text();
  expect(page).toContain("Development control system");
});
