import { defineAgent } from "agent-control-service";
import { CASES, JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { startJob, until } from "./_jobs.ts";

/** An agent that asks with these options; what a test changes is what later code says. */
function asker(ask: Record<string, unknown>) {
  return defineAgent({
    name: "Asker",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          const item = await job.openCase({ id: "c", name: "Order 7" });
          return item.ask("refund", {
            question: "Refund?",
            fields: [{ name: "approved", field_type: "BooleanField", required: true }, { name: "why" }],
            ...ask,
          });
        },
      },
    },
  });
}

async function asking(ask: Record<string, unknown>, options = {}): Promise<TestServer> {
  const server = await testServer({ agents: [asker(ask)], ...options });
  await startJob(server.service, { id: "j" });
  await until(server.service, "j", ["awaiting"]);
  return server;
}

const item = ({ service }: TestServer) => service.get(CASES).get("c");
const names = async (server: TestServer) => (await item(server)).updates.map(({ name }) => name);
const answer = ({ service }: TestServer, by: string | undefined, values: object = { approved: true }) =>
  service.get(RUNNER).answer("j", "c", { answer: { ...values }, message: null }, by);

describe("a question that nobody answers", () => {
  const options = { assignTo: "Mira", remind: "4h", escalate: { after: "1d", to: "lead" } };

  it("is reminded of once and passed on once, also where the service dies in between", async () => {
    await using server = await asking(options);

    await server.advance("3h");
    expect(await names(server)).toEqual(["Refund?"]);
    await server.crash();
    await server.advance("2h");
    expect(await names(server)).toEqual(["Refund?", "reminder"]);
    expect((await item(server)).updates.at(-1)?.payload).toMatchObject({
      reminder: { question: "Refund?", assigned_to: "Mira", deadline: null },
    });
    await server.crash();
    await server.advance("20h");
    await server.crash();
    await server.advance("3d");

    expect(await names(server)).toEqual(["Refund?", "reminder", "escalation"]);
    const { question, updates } = await item(server);
    expect(updates.at(-1)?.payload).toMatchObject({ escalation: { from: "Mira", to: "lead" } });
    expect(question?.assigned_to).toBe("lead");
    expect((await server.service.get(JOBS).get("j")).status).toBe("awaiting");
  });

  it("is reminded of after the start of a service that was down at that time", async () => {
    await using server = await asking(options);

    await server.crash();
    await server.advance("2d");

    expect(await names(server)).toEqual(["Refund?", "reminder", "escalation"]);
  });

  it("is sent to the control system, as other updates are", async () => {
    const account = { workspace_id: "w", api_key: "k", api_url: "http://127.0.0.1:9" };
    await using server = await asking(options, { account });

    await server.advance("5h");

    const { items } = await server.service.get(STORE).table("Outbox").list({ limit: 100 });
    const sent = items.map((one) => JSON.stringify(one)).filter((text) => text.includes('"reminder":{'));
    expect(sent).toHaveLength(1);
    expect(sent[0]).toContain("agent.case.update");
  });

  it("is not reminded of once it is answered", async () => {
    await using server = await asking(options);

    await answer(server, "Mira");
    await until(server.service, "j", ["completed"]);
    await server.advance("3d");

    expect(await names(server)).not.toContain("reminder");
  });
});

describe("a question that two people must answer alike", () => {
  const twice = { approvers: 2 };

  it("stays open after the first answer, which is recorded, also after a crash", async () => {
    await using server = await asking(twice);

    await answer(server, "Ada");
    await server.crash();
    const { question, updates, status } = await item(server);
    await answer(server, "Bo");
    await until(server.service, "j", ["completed"]);

    expect(status).toBe("awaiting");
    expect(question?.approvals).toMatchObject([{ by: "Ada", answer: { approved: true } }]);
    expect(updates.at(-1)).toMatchObject({ name: "answer", payload: { by: "Ada", agree: 1, of: 2 } });
    const log = await server.service.get(JOBS).log("j");
    expect(log.flatMap(({ entry }) => (entry.type === "answer" ? [entry.by] : []))).toEqual(["Ada, Bo"]);
    expect((await server.service.get(JOBS).get("j")).result).toMatchObject({ approved: true });
  });

  it.each(["Ada", " ada "])("does not count the answer of one person twice, as %j", async (again) => {
    await using server = await asking(twice);
    await answer(server, "Ada");

    await expect(answer(server, again)).rejects.toThrow('Ada has already given this answer to case "c"');

    expect((await item(server)).status).toBe("awaiting");
  });

  it("does not count an answer without a name", async () => {
    await using server = await asking(twice);

    await expect(answer(server, undefined)).rejects.toThrow("an answer needs a name");
    for (const caller of [
      { kind: "session", session: "s1" },
      { kind: "token", job: "j" },
    ] as const) {
      const nameless = server.service
        .get(RUNNER)
        .answer("j", "c", { answer: { approved: true }, message: null }, caller);
      await expect(nameless).rejects.toThrow("an answer needs a name");
    }

    expect((await item(server)).question?.approvals).toBeUndefined();
  });

  it("counts two sessions of one name as one person", async () => {
    await using server = await asking(twice);
    const by = (session: string) => ({ kind: "session", session, says: "Ada" }) as const;
    const request = { answer: { approved: true }, message: null };

    await server.service.get(RUNNER).answer("j", "c", request, by("s1"));

    await expect(server.service.get(RUNNER).answer("j", "c", request, by("s2"))).rejects.toThrow(
      'session s1, says "Ada" has already given this answer',
    );
  });

  it("takes a different answer in place of the first, and then that must be given twice", async () => {
    await using server = await asking(twice);

    await answer(server, "Ada", { approved: true, why: "broken" });
    await answer(server, "Bo", { approved: false });
    const { question, status } = await item(server);
    await answer(server, "Ada", { approved: false });
    await until(server.service, "j", ["completed"]);

    expect([status, question?.approvals?.map(({ by }) => by)]).toEqual(["awaiting", ["Bo"]]);
    expect((await server.service.get(JOBS).get("j")).result).toMatchObject({ approved: false });
  });

  it("accepts one of two answers that agree at the same moment as the last one", async () => {
    await using server = await asking({ approvers: 3 });
    await answer(server, "Ada");

    await Promise.all([answer(server, "Bo"), answer(server, "Cy")]);
    await until(server.service, "j", ["completed"]);

    expect((await names(server)).filter((name) => name === "answer")).toHaveLength(3);
  });

  it("ends at its deadline as other questions do", async () => {
    const last = { deadline: "2h", onTimeout: "default", default: { approved: false } };
    await using server = await asking({ ...twice, ...last });
    await answer(server, "Ada");

    await server.advance("3h");

    await until(server.service, "j", ["completed"]);
    expect((await server.service.get(JOBS).get("j")).result).toMatchObject({ approved: false });
  });
});

describe("a question that older code asked", () => {
  it("gets the reminders and approvers that newer code wants, from the time it was asked", async () => {
    const ask: Record<string, unknown> = {};
    // It stays in memory: one that is suspended learns of new code when it is resumed.
    await using server = await asking(ask, { suspendAfter: false });

    await server.advance("1h");
    Object.assign(ask, { remind: "4h", approvers: 2, assignTo: "Mira" });
    await server.crash();
    await expect.poll(async () => (await item(server)).question?.approvers).toBe(2);
    await server.advance("3h");
    await answer(server, "Ada");
    await answer(server, "Bo");
    await until(server.service, "j", ["completed"]);

    expect((await names(server)).filter((name) => name === "reminder")).toHaveLength(1);
  });

  it("keeps what was sent, and answers only to the same text", async () => {
    const ask: Record<string, unknown> = { remind: "1h", approvers: 2, assignTo: "Mira" };
    // It stays in memory: one that is suspended learns of new code when it is resumed.
    await using server = await asking(ask, { suspendAfter: false });
    await server.service.get(RUNNER).assign("c", "Bo", "Ada");
    await answer(server, "Ada");
    await server.advance("2h");

    Object.assign(ask, { deadline: "9d" });
    await server.crash();
    await expect.poll(async () => (await item(server)).question?.deadline).toBeTruthy();
    const same = (await item(server)).question;
    Object.assign(ask, { question: "Refund all?" });
    await server.crash();
    await expect.poll(async () => (await item(server)).question?.question).toBe("Refund all?");
    await server.advance("2h");

    expect([same?.assigned_to, same?.approvals?.length]).toEqual(["Bo", 1]);
    const { question } = await item(server);
    expect([question?.assigned_to, question?.approvals]).toEqual(["Bo", undefined]);
    expect((await names(server)).filter((name) => name === "reminder")).toHaveLength(1);
  });
});

it.each([
  [{ approvers: 0 }, "0 approvers"],
  [{ approvers: 1.5 }, "1.5 approvers"],
  [{ remind: "soon" }, "soon"],
  [{ escalate: { after: "1d", to: "" } }, "a name of 1 to 60"],
  [{ assignTo: "x".repeat(61) }, "a name of 1 to 60"],
])("a question with %j fails its job with the cause", async (ask, cause) => {
  await using server = await testServer({ agents: [asker(ask)] });
  await startJob(server.service, { id: "j" });
  await until(server.service, "j", ["failed"]);

  expect((await server.service.get(JOBS).get("j")).error).toContain(cause);
});
