import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { describeServer, greeter } from "../_setup.ts";
import { clerk } from "./_clerk.ts";
import { startBody, startJob, waitFor } from "./_client.ts";

const agents = [clerk, greeter];

describeServer("jobs", ({ start }) => {
  it("are started with 202, and run", async () => {
    await using server = await start({ agents });

    const response = await server.request("/agents/clerk/jobs", {
      json: startBody("job-1", { mode: "greet", count: 3 }),
    });
    const job = (await response.json()) as Record<string, unknown>;
    const done = await waitFor(server, "job-1", "completed");

    expect(response.status).toBe(202);
    expect(response.headers.get("location")).toBe("/agents/clerk/jobs/job-1");
    expect(job).toMatchObject({ id: "job-1", agent_name: "clerk", job_fields: { mode: "greet", count: 3 } });
    expect(job).not.toHaveProperty("fingerprint");
    expect(job).not.toHaveProperty("encrypted_agent_parameters");
    expect(done).toMatchObject({ job_id: "job-1", status: "completed" });
  });

  it("are listed for one agent and for all, newest first, by page and by status", async () => {
    await using server = await start({ agents });
    for (const id of ["job-1", "job-2", "job-3"]) {
      await startJob(server, id);
      await waitFor(server, id, "completed");
    }
    await startJob(server, "job-4", { mode: "fail" });
    await waitFor(server, "job-4", "failed");
    const ids = async (path: string) => {
      const response = await server.request(path);
      const jobs = (await response.json()) as { job_id: string }[];
      return [jobs.map((job) => job.job_id).join(), response.headers.get("x-total-count")];
    };

    expect(await ids("/jobs")).toEqual(["job-4,job-3,job-2,job-1", "4"]);
    expect(await ids("/jobs?limit=2&skip=1")).toEqual(["job-3,job-2", "4"]);
    expect(await ids("/jobs?status=failed")).toEqual(["job-4", "1"]);
    expect(await ids("/agents/clerk/jobs?limit=1")).toEqual(["job-4", "4"]);
    expect(await ids("/agents/greeter/jobs")).toEqual(["", "0"]);
  });

  it("are read page by page with a cursor: a new one shifts none of them", async () => {
    await using server = await start({ agents });
    for (const id of ["job-1", "job-2", "job-3"]) await startJob(server, id);
    const page = async (path: string) => {
      const response = await server.request(path);
      expect(response.status).toBe(200);
      const jobs = (await response.json()) as { job_id: string }[];
      return { ids: jobs.map((job) => job.job_id), next: response.headers.get("x-next-cursor") };
    };
    const first = await page("/jobs?limit=2");
    await startJob(server, "job-4");

    const second = await page(`/jobs?limit=2&after=${first.next}`);

    expect([first.ids, second.ids, second.next]).toEqual([["job-3", "job-2"], ["job-1"], null]);
  });

  it.each([
    ["text that is no cursor", "x", "after is not a cursor"],
    ["a cursor of another order", Buffer.from('["name","a","b"]').toString("base64url"), "sorted by name"],
    [
      "a cursor with another shape",
      Buffer.from('["-created_at",{},1]').toString("base64url"),
      "not a cursor",
    ],
  ])("%s is refused", async (_what, after, problem) => {
    await using server = await start({ agents });

    const response = await server.request(`/jobs?after=${after}`);

    expect(response.status).toBe(422);
    expect(await response.text()).toContain(problem);
  });

  it("of another agent are not found under this one", async () => {
    await using server = await start({ agents });
    await startJob(server, "job-1");

    const own = await server.request("/agents/clerk/jobs/job-1");
    const other = await server.request("/agents/greeter/jobs/job-1");
    const stop = await server.request("/agents/greeter/stop", { json: startBody("job-1") });

    expect([own.status, other.status, stop.status]).toEqual([200, 404, 404]);
    expect(await other.json()).toMatchObject({ error_type: "job_not_found" });
  });

  it("that do not exist are not found, on every route", async () => {
    await using server = await start({ agents });

    const answers = await Promise.all([
      server.request("/jobs/job-9"),
      server.request("/jobs/job-9/cases"),
      server.request("/jobs/job-9/stream"),
      server.request("/agents/clerk/jobs/job-9"),
      server.request("/agents/clerk/stop", { json: startBody("job-9") }),
      server.request("/jobs/job-9/resume", { method: "POST" }),
      server.request("/jobs/job-9/retry", { method: "POST" }),
      server.request("/jobs/job-9/cases/case-1/update", { json: { answer: {} } }),
    ]);

    for (const answer of answers) {
      expect(answer.status, answer.url).toBe(404);
      expect(await answer.json()).toMatchObject({ error_type: "job_not_found" });
    }
  });

  it.each([
    ["missing", { count: 1 }, "mode"],
    ["of the wrong type", { mode: "greet", count: "many" }, "count"],
    ["not a choice", { mode: "sing" }, "mode"],
    ["unknown", { mode: "greet", volume: 11 }, "volume"],
  ])("with a field that is %s are refused, and not created", async (_name, fields, field) => {
    await using server = await start({ agents });

    const response = await server.request("/agents/clerk/jobs", { json: startBody("job-1", fields) });
    const answer = (await response.json()) as { detail: string };

    expect(response.status).toBe(422);
    expect(answer).toMatchObject({ error_type: "invalid_parameters" });
    expect(answer.detail).toContain(field);
    expect((await server.request("/jobs/job-1")).status).toBe(404);
  });

  it.each([
    ["a context that is none", { ...startBody("job-1"), job_context: "job-1" }],
    ["a bad id", startBody("../job")],
    ["a list of fields", { ...startBody("job-1"), job_fields: [] }],
    ["a bad time", startBody("job-1", undefined, { started_at: "yesterday" })],
    ["a day that does not exist", startBody("job-1", undefined, { started_at: "2026-13-45T99:99" })],
    ["30 February", startBody("job-1", undefined, { started_at: "2026-02-30T00:00:00Z" })],
    ["the year 0", startBody("job-1", undefined, { started_at: "0000-01-01T00:00:00Z" })],
    ["a negative limit", startBody("job-1", undefined, { job_instructions: { max_cases: -1 } as never })],
  ])("with %s are refused", async (_name, json) => {
    await using server = await start({ agents });

    const response = await server.request("/agents/clerk/jobs", { json });

    expect(response.status).toBe(422);
    expect(await response.json()).toMatchObject({ error_type: "invalid_request" });
  });

  it("requested without the key are not started", async () => {
    await using server = await start({ agents });

    const response = await server.request("/agents/clerk/jobs", { json: startBody("job-1"), key: "wrong" });

    expect(response.status).toBe(401);
    expect(await server.service.get(JOBS).find("job-1")).toBeUndefined();
  });

  it("requested again are the same job, started once", async () => {
    await using server = await start({ agents });
    const first = await startJob(server, "job-1", { mode: "wait" });

    const again = await Promise.all([1, 2, 3].map(() => startJob(server, "job-1", { mode: "wait" })));
    const log = await server.service.get(JOBS).log("job-1");

    for (const job of again) expect(job).toMatchObject({ id: first.id, created_at: first.created_at });
    expect(log.filter(({ entry }) => entry.type === "mark" && entry.mark === "started").length).toBeLessThan(
      2,
    );
  });

  it("requested again with other content are refused, and the first one is intact", async () => {
    await using server = await start({ agents });
    await startJob(server, "job-1", { mode: "greet", count: 1 });
    await waitFor(server, "job-1", "completed");
    const before = await server.service.get(JOBS).get("job-1");

    const response = await server.request("/agents/clerk/jobs", {
      json: startBody("job-1", { mode: "greet", count: 2 }),
    });

    expect(response.status).toBe(409);
    expect(await response.json()).toMatchObject({ error_type: "job_already_exists" });
    expect(await server.service.get(JOBS).get("job-1")).toEqual(before);
  });

  it("are stopped", async () => {
    await using server = await start({ agents });
    await startJob(server, "job-1", { mode: "wait" });
    await waitFor(server, "job-1", "in_progress");

    const response = await server.request("/agents/clerk/stop", {
      json: { job_context: startBody("job-1").job_context },
    });
    const answer = (await response.json()) as { status: string };

    expect(response.status).toBe(200);
    expect(["cancelling", "cancelled"]).toContain(answer.status);
    await waitFor(server, "job-1", "cancelled");
  });

  it("are run again after a failure", async () => {
    await using server = await start({ agents });
    await startJob(server, "job-1", { mode: "fail" });
    await waitFor(server, "job-1", "failed");

    const retry = await server.request("/jobs/job-1/retry", { json: { from: "start" } });
    const wrong = await server.request("/jobs/job-1/retry", { json: { from: "middle" } });

    expect(retry.status).toBe(202);
    expect(wrong.status).toBe(422);
    await waitFor(server, "job-1", "failed");
    expect((await server.service.get(JOBS).get("job-1")).run_count).toBe(2);
  });

  it("that are completed cannot be resumed or retried", async () => {
    await using server = await start({ agents });
    await startJob(server, "job-1");
    await waitFor(server, "job-1", "completed");

    const resume = await server.request("/jobs/job-1/resume", {
      json: { job_instructions: { max_cases: 5 } },
    });
    const retry = await server.request("/jobs/job-1/retry", { method: "POST" });

    expect([resume.status, retry.status]).toEqual([409, 409]);
    expect(await retry.json()).toMatchObject({ error_type: "invalid_transition" });
  });

  it("that ask a question accept one answer", async () => {
    await using server = await start({ agents });
    await startJob(server, "job-1", { mode: "ask" });
    await waitFor(server, "job-1", "awaiting");
    const update = (json: unknown) => server.request("/jobs/job-1/cases/question/update", { json });

    const [item] = (await (await server.request("/jobs/job-1/cases")).json()) as {
      id: string;
      status: string;
    }[];
    const wrong = await update({ answer: { yes: "perhaps" } });
    const shapeless = await update({ answer: [] });
    const taken = await update({ answer: { yes: true }, message: "continue" });
    const late = await update({ answer: { yes: false } });
    const unknown = await server.request("/jobs/job-1/cases/nothing/update", { json: { answer: {} } });

    expect(item).toMatchObject({ ref: "question", status: "awaiting", account: { api_key: null } });
    expect([wrong.status, shapeless.status]).toEqual([422, 422]);
    expect(taken.status).toBe(200);
    expect(await taken.json()).toEqual({
      status: "success",
      message: expect.any(String),
      job_id: "job-1",
      case_id: item?.id,
      case_status: "in_progress",
    });
    expect(late.status).toBe(409);
    expect(await late.json()).toMatchObject({
      error_type: "invalid_transition",
      detail: expect.stringContaining("status"),
    });
    expect([unknown.status, ((await unknown.json()) as { error_type: string }).error_type]).toEqual([
      404,
      "case_not_found",
    ]);
    await waitFor(server, "job-1", "completed");
  });

  it("are refused while the queue is full, and show their position in it", async () => {
    await using server = await start({ agents, maxConcurrentJobs: 1, maxQueuedJobs: 1 });
    await startJob(server, "job-1", { mode: "wait" });
    await waitFor(server, "job-1", "in_progress");

    const waiting = await server.request("/agents/clerk/jobs", { json: startBody("job-2") });
    const refused = await server.request("/agents/clerk/jobs", { json: startBody("job-3") });
    const health = await (await server.request("/.well-known/health", { key: null })).json();

    expect(waiting.status).toBe(202);
    expect(waiting.headers.get("x-queue-position")).toBe("1");
    expect(waiting.headers.get("x-queue-length")).toBe("1");
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ error_type: "rate_limited" });
    expect(health).toMatchObject({ status: "degraded", detail: "The queue of jobs is full" });
  });

  it("with one idempotency key are one job", async () => {
    await using server = await start({ agents });
    const post = (key: string) =>
      server.request("/agents/clerk/jobs", { json: startBody("job-1"), headers: { "idempotency-key": key } });

    const [one, two] = [await post("key-1"), await post("key-1")];
    const bad = await post("with space");

    expect([one.status, two.status, bad.status]).toEqual([202, 202, 422]);
  });
});

describe("the API prefix", () => {
  it("is the prefix of the machine routes, and not of health", async () => {
    await using server = await testServer({ agents, apiPrefix: "/supervaizer" });

    const statuses = await Promise.all(
      [
        "/supervaizer/agents",
        "/agents",
        "/supervaizer/jobs",
        "/jobs",
        "/.well-known/health",
        "/agents/health",
      ].map(async (path) => (await server.request(path)).status),
    );
    const agent = await (await server.request("/supervaizer/agents/clerk")).json();

    expect(statuses).toEqual([200, 404, 200, 404, 200, 200]);
    expect(agent).toMatchObject({ api_path: "/supervaizer/agents/clerk" });
  });
});
