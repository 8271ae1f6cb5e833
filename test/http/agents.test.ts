import { testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { AGENT_SETTINGS } from "../../src/core/service/tokens.ts";
import { describeServer, greeter } from "../_setup.ts";
import { clerk } from "./_clerk.ts";
import { startJob, waitFor } from "./_client.ts";
import { jobContext } from "./_jobs.ts";

const agents = [clerk, greeter];

describeServer("agents", ({ start }) => {
  it("are listed and shown, without handlers and without values of parameters", async () => {
    await using server = await start({ agents });

    const list = await server.request("/agents");
    const one = await server.request("/agents/clerk");
    const text = await list.clone().text();

    expect(await list.json()).toMatchObject([{ slug: "clerk" }, { slug: "greeter" }]);
    expect(text).not.toContain("declared-secret-value");
    expect(await one.json()).toEqual({
      name: "Clerk",
      id: expect.stringMatching(/^[2-9A-HJ-NP-Za-km-z]{22}$/),
      slug: "clerk",
      author: "Ada",
      developer: null,
      maintainer: null,
      editor: null,
      version: "1.2.3",
      api_path: "/agents/clerk",
      description: "Follows its instructions",
      tags: ["test"],
      methods: {
        job_start: {
          name: "job_start",
          method: "job_start",
          params: null,
          fields: [
            expect.objectContaining({
              name: "mode",
              field_type: "ChoiceField",
              choices: ["greet", "wait", "ask", "fail"],
              required: true,
            }),
            expect.objectContaining({
              name: "count",
              field_type: "IntegerField",
              default: 1,
              required: false,
            }),
          ],
          description: "Works",
          nodes: null,
          timeout: null,
        },
        job_stop: null,
        job_status: expect.objectContaining({ name: "job_status" }),
        human_answer: null,
        chat: expect.objectContaining({ name: "chat" }),
        custom: { reverse: expect.objectContaining({ name: "reverse" }) },
      },
      parameters_setup: [
        {
          name: "TOKEN",
          description: "Opens the drawer",
          is_environment: false,
          is_secret: true,
          is_required: true,
        },
        { name: "COLOUR", description: null, is_environment: false, is_secret: false, is_required: false },
      ],
      server_agent_id: null,
      server_agent_status: null,
      server_agent_onboarding_status: null,
      server_encrypted_parameters: null,
    });
  });

  it("that do not exist are not found, on every route", async () => {
    await using server = await start({ agents });
    const post = (path: string, json: unknown) => server.request(path, { json });
    const start_ = { job_context: jobContext("job-1"), job_fields: {} };

    const answers = await Promise.all([
      server.request("/agents/nobody"),
      server.request("/agents/nobody/jobs"),
      server.request("/agents/nobody/jobs/job-1"),
      post("/agents/nobody/jobs", start_),
      post("/agents/nobody/stop", start_),
      post("/agents/nobody/status", { params: {} }),
      post("/agents/nobody/chat", { params: {} }),
      post("/agents/nobody/custom/reverse", start_),
      post("/agents/nobody/parameters", {}),
      post("/agents/nobody/validate-agent-parameters", {}),
      post("/agents/nobody/validate-method-fields", { job_fields: {} }),
    ]);

    for (const answer of answers) {
      expect(answer.status, answer.url).toBe(404);
      expect(await answer.json()).toMatchObject({
        error_type: "agent_not_found",
        detail: "Agents on this service: clerk, greeter.",
      });
    }
  });

  it("answer a chat and a custom method", async () => {
    await using server = await start({ agents });

    const chat = await server.request("/agents/clerk/chat", { json: { params: { text: "hello" } } });
    const custom = await server.request("/agents/clerk/custom/reverse", {
      json: { job_context: jobContext("job-1"), job_fields: {}, params: { text: "abc" } },
    });
    const unknown = await server.request("/agents/clerk/custom/nothing", {
      json: { job_context: jobContext("job-1"), job_fields: {} },
    });
    const silent = await server.request("/agents/greeter/chat", { json: { params: {} } });

    expect([chat.status, await chat.json()]).toEqual([200, { echo: "hello" }]);
    expect(custom.status).toBe(200);
    expect(await custom.json()).toMatchObject({ message: "cba" });
    expect([unknown.status, silent.status]).toEqual([404, 404]);
  });

  it("report a job's progress", async () => {
    await using server = await start({ agents });
    await startJob(server, "job-1");
    await waitFor(server, "job-1", "completed");

    const status = await server.request("/agents/clerk/status", { json: { params: { job_id: "job-1" } } });

    expect(status.status).toBe(200);
    expect(await status.json()).toMatchObject({
      job_id: "job-1",
      status: "completed",
      message: "It is completed",
    });
  });

  it("have fields that can be checked before a job is started", async () => {
    await using server = await start({ agents });
    const validate = async (json: unknown) =>
      (await server.request("/agents/clerk/validate-method-fields", { json })).json();

    const good = await validate({ job_fields: { mode: "greet" } });
    const bad = await validate({ job_fields: { mode: "sleep", count: "x", extra: 1 } });

    expect(good).toEqual({ valid: true, message: "Method fields are valid", errors: [], invalid_fields: {} });
    expect(bad).toMatchObject({
      valid: false,
      invalid_fields: { mode: expect.any(String), count: expect.any(String) },
    });
    expect(bad).toMatchObject({ invalid_fields: { extra: expect.any(String) } });
  });
});

describe("agent parameters", () => {
  it("are encrypted with the service's key, and checked", async () => {
    await using server = await testServer({ agents });
    const encrypt = async (value: unknown) =>
      (await (await server.request("/utils/encrypt", { json: JSON.stringify(value) })).json()) as string;
    const validate = async (encrypted_agent_parameters: string) =>
      (
        await server.request("/agents/clerk/validate-agent-parameters", {
          json: { encrypted_agent_parameters },
        })
      ).json();

    const key = await (await server.request("/utils/public_key")).json();
    const good = await validate(await encrypt({ TOKEN: "sesame-opens" }));
    const unknown = await validate(await encrypt([{ name: "NOISE", value: "x" }]));
    const broken = await validate("bm90IGVuY3J5cHRlZA==");

    expect(key).toMatch(/^-----BEGIN PUBLIC KEY-----/);
    expect(good).toEqual({ valid: true, message: expect.any(String), errors: [], invalid_parameters: {} });
    expect(unknown).toMatchObject({ valid: false, invalid_parameters: { NOISE: expect.any(String) } });
    expect(broken).toMatchObject({
      valid: false,
      invalid_parameters: { encrypted_agent_parameters: "cannot be decrypted" },
    });
    expect(JSON.stringify([good, unknown, broken])).not.toContain("sesame");
  });

  it("are refused when a job is started under a name that the agent does not declare, in the same words", async () => {
    await using server = await testServer({ agents });
    const encrypted_agent_parameters = (await (
      await server.request("/utils/encrypt", {
        json: JSON.stringify({ TOKEN: "sesame-opens", TOCKEN: "sesame-shuts" }),
      })
    ).json()) as string;
    const start = {
      job_context: jobContext("misspelled"),
      job_fields: { mode: "greet" },
      encrypted_agent_parameters,
    };

    const checked = (await (
      await server.request("/agents/clerk/validate-agent-parameters", {
        json: { encrypted_agent_parameters },
      })
    ).json()) as { errors: string[] };
    const started = await server.request("/agents/clerk/jobs", { json: start });
    const answer = (await started.json()) as { error_type: string; detail: string };

    expect(started.status).toBe(422);
    expect(answer).toMatchObject({ error_type: "invalid_parameters" });
    expect(checked.errors).toEqual(["Parameter TOCKEN is not a parameter of clerk"]);
    expect(answer.detail).toContain(checked.errors[0]);
    expect(JSON.stringify(answer)).not.toContain("sesame");
    expect((await server.request("/jobs/misspelled")).status).toBe(404);
  });

  it("are stored for an agent unchanged, across a restart", async () => {
    await using folder = await testServer({ agents });
    const encrypted = await (
      await folder.request("/utils/encrypt", { json: '{"TOKEN":"sesame-opens"}' })
    ).json();
    const options = { agents, store: undefined, dataDir: `${folder.dataDir}/kept` };

    {
      await using server = await testServer(options);
      const changed = await server.request("/agents/clerk/parameters", {
        json: { onboarding_status: "in_progress", parameters_encrypted: encrypted },
      });
      expect(changed.status).toBe(200);
      expect(await changed.json()).toMatchObject({ server_encrypted_parameters: encrypted });
      await server.request("/agents/clerk/parameters", { json: { onboarding_status: "completed" } });
    }
    await using server = await testServer(options);
    const agent = await (await server.request("/agents/clerk")).json();
    const kept = await server.service.get(AGENT_SETTINGS).find("clerk");

    expect(agent).toMatchObject({
      server_agent_onboarding_status: "completed",
      // Only for the one who sent it: a reader could try changes on it.
      server_encrypted_parameters: null,
    });
    expect(kept?.parameters_encrypted).toBe(encrypted);
  });

  it("that cannot be decrypted are not stored", async () => {
    await using server = await testServer({ agents });

    const response = await server.request("/agents/clerk/parameters", {
      json: { parameters_encrypted: "bm9uZQ==" },
    });

    expect(response.status).toBe(422);
    expect(await response.json()).toMatchObject({ error_type: "invalid_parameters" });
    expect(await (await server.request("/agents/clerk")).json()).toMatchObject({
      server_encrypted_parameters: null,
    });
  });
});
