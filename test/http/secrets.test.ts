import { defineAgent, ServiceError } from "agent-control-service";
import { defineRoute, PARAMETERS, type Plugin, ROUTER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it } from "vitest";
import { jobContext } from "./_jobs.ts";

const TOKEN = "planted-token-8f3a";
const reply = ({ parameters }: { parameters: Readonly<Record<string, string>> }) => ({
  message: `it is ${parameters.TOKEN}`,
  [String(parameters.TOKEN)]: [parameters.TOKEN],
});

/** Tells its secret to anyone who asks. */
const talker = defineAgent({
  name: "Talker",
  version: "1.0.0",
  parameters: [{ name: "TOKEN", is_secret: true, value: TOKEN }],
  methods: {
    job_start: { run: () => "done" },
    job_status: { run: reply },
    chat: { run: reply },
    custom: { tell: { run: reply } },
  },
});

const careless: Plugin = {
  name: "careless",
  setup: ({ get }) => {
    get(ROUTER).add(
      defineRoute({
        method: "GET",
        path: "/careless/{what}",
        auth: "key",
        needs: "view",
        summary: "Answers with secrets",
        tag: "Test",
        params: v.object({ what: v.string() }),
        responses: {
          200: {
            description: "All",
            schema: v.object({ status: v.picklist(["completed"]), text: v.string() }),
          },
        },
        handler: ({ params }) => {
          if (params.what === "error") throw new ServiceError("not_found", `No ${TOKEN}`, { detail: TOKEN });
          return { status: "completed", text: `completed: ${TOKEN}` };
        },
      }),
    );
  },
};

async function post(server: TestServer, path: string): Promise<string> {
  const response = await server.request(path, {
    json: { params: {} },
  });
  expect(response.status).toBe(200);
  return response.text();
}

it.each(["chat", "status", "custom/tell"])("an agent's response to %s has no secret", async (method) => {
  await using server = await testServer({ agents: [talker] });

  const answer = await post(server, `/agents/talker/${method}`);

  expect(answer).toContain("it is [secret]");
  expect(answer).not.toContain(TOKEN);
});

it("secrets are removed from responses and failures of a plugin's routes", async () => {
  await using server = await testServer({ agents: [talker], plugins: [careless] });
  await post(server, "/agents/talker/chat");

  const answer = await server.request("/careless/all");
  const failure = await server.request("/careless/error");

  expect(await answer.json()).toEqual({ status: "completed", text: "completed: [secret]" });
  expect(await failure.json()).toMatchObject({ error: "No [secret]", detail: "[secret]" });
});

it("a secret that is a word of the interface changes no status, id or field name", async () => {
  await using server = await testServer({ agents: [talker], plugins: [careless] });
  for (const word of ["completed", "status", "job_id", "job-12"]) {
    const encrypted = server.service.get(PARAMETERS).encrypt(JSON.stringify({ TOKEN: word }));
    const checked = await server.request("/agents/talker/validate-agent-parameters", {
      json: { encrypted_agent_parameters: encrypted },
    });
    expect(await checked.json()).toMatchObject({ valid: true });
  }

  const careful = await (await server.request("/careless/all")).json();
  const started = await server.request("/agents/talker/jobs", {
    json: { job_context: jobContext("job-12"), job_fields: {} },
  });

  expect(careful).toMatchObject({ status: "completed" });
  expect(await started.json()).toMatchObject({ id: "job-12", job_context: { job_id: "job-12" } });
});
