import type { Job, ServerOptions } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import type { TestServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { describeServer, greeter } from "../_setup.ts";
import { clerk } from "./_clerk.ts";
import { startBody, waitFor } from "./_client.ts";
import { jobContext } from "./_jobs.ts";

const agents = [clerk, greeter];
const job_fields = { mode: "greet" };
const ID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;
/** An account that nobody answers for: the port is closed. */
const account: ServerOptions["account"] = {
  workspace_id: "acme",
  api_key: "control-key-of-this-test",
  api_url: "http://127.0.0.1:9",
};

async function post(
  server: TestServer,
  json: unknown,
  headers: Record<string, string> = {},
): Promise<Response> {
  return server.request("/agents/clerk/jobs", { json, headers });
}

async function started(server: TestServer, json: unknown, headers?: Record<string, string>): Promise<Job> {
  const response = await post(server, json, headers);
  expect(response.status, await response.clone().text()).toBe(202);
  return (await response.json()) as Job;
}

describeServer("a job started without a context", ({ start }) => {
  it("gets a new id each time, and a context with it", async () => {
    await using server = await start({ agents, clock: () => new Date("2026-03-01T08:00:00Z") });

    const [one, two] = [await started(server, { job_fields }), await started(server, { job_fields })];

    expect(one.id).toMatch(ID);
    expect(two.id).not.toBe(one.id);
    expect(one).toMatchObject({ name: "Clerk", agent_name: "clerk" });
    expect(one.job_context).toEqual({
      workspace_id: "local",
      job_id: one.id,
      started_by: "api",
      started_at: "2026-03-01T08:00:00.000Z",
      mission_id: one.id,
      mission_name: "Clerk",
      mission_context: null,
      job_instructions: null,
    });
    await waitFor(server, one.id, "completed");
    expect((await server.service.get(JOBS).get(one.id)).job_context).toEqual(one.job_context);
  });

  it("keeps the given parts of its context, limits too", async () => {
    await using server = await start({ agents });

    const job = await started(server, {
      job_context: { job_id: "mine", mission_name: "Spring", job_instructions: { max_cost: 3 } },
      job_fields,
    });

    expect(job).toMatchObject({
      id: "mine",
      name: "Spring",
      job_context: {
        job_id: "mine",
        mission_id: "mine",
        job_instructions: { max_cost: 3, stop_on_error: true },
      },
    });
  });

  it("has its fields checked, even if none are sent", async () => {
    await using server = await start({ agents });

    const response = await post(server, {});

    expect(response.status).toBe(422);
    expect(await response.json()).toMatchObject({
      error_type: "invalid_parameters",
      detail: expect.stringContaining("mode"),
    });
  });

  it("is the same job when the request is repeated with its id, at another time", async () => {
    let now = Date.parse("2026-03-01T08:00:00Z");
    await using server = await start({ agents, clock: () => new Date(now) });
    const body = { job_context: { job_id: "mine" }, job_fields };

    const first = await started(server, body);
    now += 60_000;
    const again = await started(server, body);
    const other = await post(server, { ...body, job_fields: { mode: "greet", count: 2 } });

    expect(again.job_context).toEqual(first.job_context);
    expect(other.status).toBe(409);
  });

  it("is the same job when the request is repeated with its idempotency key", async () => {
    await using server = await start({ agents });
    const headers = { "idempotency-key": "key-1" };

    const jobs = await Promise.all([1, 2, 3].map(() => started(server, { job_fields }, headers)));
    const other = await post(server, { job_fields: { mode: "greet", count: 2 } }, headers);

    expect(new Set(jobs.map((job) => job.id)).size).toBe(1);
    expect(other.status).toBe(409);
  });

  it("is stopped with only its id", async () => {
    await using server = await start({ agents });
    const job = await started(server, { job_fields: { mode: "wait" } });
    await waitFor(server, job.id, "in_progress");

    const response = await server.request("/agents/clerk/stop", {
      json: { job_context: { job_id: job.id } },
    });
    const nobody = await server.request("/agents/clerk/stop", { json: { job_context: {} } });

    expect([response.status, nobody.status]).toEqual([200, 422]);
    await waitFor(server, job.id, "cancelled");
  });

  it("may call a custom method without a job", async () => {
    await using server = await start({ agents });

    const response = await server.request("/agents/clerk/custom/reverse", {
      json: { params: { text: "abc" } },
    });

    expect(response.status, await response.clone().text()).toBe(200);
  });
});

describeServer("a service that reports to a control system", ({ start }) => {
  it("requires the whole context over HTTP, and says so in its document", async () => {
    await using server = await start({ agents, account });

    const without = await post(server, { job_fields });
    const partial = await post(server, { job_context: { job_id: "mine" }, job_fields });
    const whole = await post(server, startBody("job-1"));
    const schema = await requestSchema(server);

    expect([without.status, partial.status, whole.status]).toEqual([422, 422, 202]);
    expect(((await partial.json()) as { detail: string }).detail).toContain("job_context.mission_id");
    expect(schema.required).toContain("job_context");
  });

  it("fills in its own workspace for jobs that its plugins start", async () => {
    await using server = await start({ agents, account });

    const job = await server.service.get(RUNNER).start("clerk", { job_fields });

    expect(job.job_context).toMatchObject({ workspace_id: "acme", mission_name: "Clerk" });
  });
});

describeServer("a start request with a whole context", ({ start }) => {
  it("has the same fingerprint as in jobs that version 0.1.0 stored", async () => {
    await using server = await start({ agents });
    const job_context = jobContext("job-1", { job_instructions: { max_cost: 5 } as never });

    await started(server, { job_context, job_fields });

    expect((await server.service.get(JOBS).get("job-1")).fingerprint).toBe(
      "HlR1pUbbVmORVtSzvlsJ63jwsrDr4mc71so1eaJPHVk",
    );
  });
});

async function requestSchema(server: TestServer): Promise<{ required?: string[] }> {
  const document = (await (await server.request("/openapi.json")).json()) as {
    paths: Record<
      string,
      { post: { requestBody: { content: Record<string, { schema: { required?: string[] } }> } } }
    >;
  };
  return document.paths["/agents/{slug}/jobs"]!.post.requestBody.content["application/json"]!.schema;
}
