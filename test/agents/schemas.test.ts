import { defineAgent, type FieldsInput } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod/v3";
import { AgentRegistry } from "../../src/core/agents/registry.ts";
import { agentOf } from "../runs/_agent.ts";
import { jobContext, startJob, until } from "../runs/_jobs.ts";
import { LIBRARIES } from "./_libraries.ts";

/** A service whose agent gives back the inputs it was started with. */
function echo(fields: FieldsInput) {
  const agent = defineAgent({
    name: "Worker",
    version: "1.0.0",
    methods: { job_start: { fields, run: ({ fields }) => fields } },
  });
  return testServer({ agents: [agent] });
}

async function start(
  server: Awaited<ReturnType<typeof echo>>,
  job_fields: Record<string, unknown>,
  id = "job-1",
) {
  const json = { job_context: jobContext(id), job_fields };
  const answer = await server.request("/agents/worker/jobs", { json });
  return { status: answer.status, text: await answer.text() };
}

async function formOf(server: Awaited<ReturnType<typeof echo>>) {
  const agent = (await (await server.request("/agents/worker")).json()) as {
    methods: { job_start: { fields: { name: string }[] } };
  };
  return Object.fromEntries(agent.methods.job_start.fields.map(({ name, ...field }) => [name, field]));
}

const VALID = {
  ...{ name: "Ada", ratio: 0.5, flag: true, kind: "new" },
  ...{ tags: ["a"], mail: "ada@example.com", limit: null },
};

describe.each(LIBRARIES)("a schema of $name", (library) => {
  it("yields the form", async () => {
    await using server = await echo(library.kinds);

    const form = await formOf(server);

    const field = (type: string | null, field_type: string, more = {}) => ({
      ...{ type, field_type, description: null, choices: null, default: null, widget: null, required: true },
      ...more,
    });
    expect(form).toEqual({
      name: field("string", "CharField", { description: "Who it is for" }),
      count: field("integer", "IntegerField", { default: 3, required: false }),
      ratio: field("number", "FloatField"),
      flag: field("boolean", "BooleanField"),
      kind: field("string", "ChoiceField", { choices: ["new", "old"] }),
      tags: field("array", "MultipleChoiceField", { choices: ["a", "b"] }),
      mail: field("string", "EmailField"),
      note: field("string", "CharField", { required: false }),
      limit: field("number", "FloatField", { required: false }),
      raw: field(null, "JSONField", { required: false }),
    });
  });

  it("checks the inputs, and stores them with their defaults", async () => {
    await using server = await echo(library.kinds);

    const answer = await start(server, VALID);
    const job = await until(server.service, "job-1");

    expect(answer.status).toBe(202);
    expect(job.job_fields).toEqual({ ...VALID, count: 3 });
    expect(job.result).toMatchObject({ ...VALID, count: 3 });
  });

  it("reports problems without the values", async () => {
    await using server = await echo(library.kinds);
    const secret = "hunter2";

    const wrong = {
      ...VALID,
      count: secret,
      ratio: secret,
      flag: secret,
      kind: secret,
      tags: [secret],
      mail: secret,
    };
    const refused = await start(server, { ...wrong, name: undefined });

    expect(refused.status).toBe(422);
    expect(refused.text).not.toContain(secret);
    for (const part of ["name is required", "ratio must be a number", "mail must be an email address"]) {
      expect(refused.text).toContain(part);
    }
    expect(refused.text).toMatch(/kind must be .*new.* .*old/);
    expect(refused.text).toMatch(/tags 0 must be .*a.* .*b/);
    expect(await server.service.get(JOBS).find("job-1")).toBeUndefined();
  });

  it("keeps the developer's own messages, for a field and for the whole object", async () => {
    await using own = await echo(library.own);
    await using across = await echo(library.across);

    const field = await start(own, { iban: "x" });
    const all = await start(across, { from: 2, to: 1 });

    expect(JSON.parse(field.text).detail).toBe("iban: Write the IBAN without blanks, such as DE123.");
    expect(JSON.parse(all.text).detail).toBe("The range is empty.");
  });

  it("names the path inside a field", async () => {
    await using server = await echo(library.nested);

    const refused = await start(server, { address: { city: 4 } });

    expect(JSON.parse(refused.text).detail).toBe("address city must be a string.");
  });

  it.each(["strict", "loose"] as const)("that is %s refuses unknown field names", async (kind) => {
    await using server = await echo(library[kind]);

    const refused = await start(server, { name: "Ada", nmae: "Ada" });
    const started = await start(server, { name: "Ada" });

    expect(JSON.parse(refused.text).detail).toBe("nmae is not a field; the fields are name.");
    expect(started.status).toBe(202);
  });

  it("passes its output to the handler, and stores the input", async () => {
    await using server = await echo(library.transformed);

    await start(server, { count: "12" });
    const job = await until(server.service, "job-1");

    expect(job.job_fields).toEqual({ count: "12" });
    expect(job.result).toEqual({ count: 12 });
  });

  it("does not store a default that differs each time", async () => {
    await using server = await echo(library.defaults);

    await start(server, {});
    await start(server, {}, "job-2");
    const [one, two] = [await until(server.service, "job-1"), await until(server.service, "job-2")];

    expect(one.job_fields).toEqual({ count: 3 });
    expect((await formOf(server)).at).toMatchObject({ default: null, required: false });
    expect((one.result as { at: number }).at).not.toBe((two.result as { at: number }).at);
  });

  it("asks questions", async () => {
    const agent = agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      return item.ask({ question: "How many?", fields: library.transformed });
    });
    await using server = await testServer({ agents: [agent] });
    const answer = (values: Record<string, unknown>) =>
      server.service.get(RUNNER).answer("job-1", "a", { answer: values, message: null });

    await startJob(server.service, { id: "job-1" });
    await until(server.service, "job-1", ["awaiting"]);
    await expect(answer({ count: 4 })).rejects.toMatchObject({ type: "invalid_parameters" });
    await answer({ count: "4" });
    const job = await until(server.service, "job-1");

    expect(job.result).toEqual({ count: 4 });
  });
});

const ASYNCHRONOUS = LIBRARIES.flatMap(({ name, asynchronous }) =>
  asynchronous ? [{ name, schema: asynchronous }] : [],
);

describe.each(ASYNCHRONOUS)("an asynchronous schema of $name", ({ schema }) => {
  it("is awaited before a job starts", async () => {
    await using server = await echo(schema);

    const wrong = await start(server, { name: 5 });
    const unknown = await start(server, { name: "Bob" });
    const started = await start(server, { name: "Ada" });
    const job = await until(server.service, "job-1");

    expect([wrong.status, unknown.status, started.status]).toEqual([422, 422, 202]);
    expect(JSON.parse(unknown.text).detail).toBe("name: Nobody knows them.");
    expect(job.result).toEqual({ name: "Ada" });
  });

  it("is awaited when a question is answered, also by default, and after a restart", async () => {
    const asked: string[] = [];
    const agent = agentOf(async ({ job }) => {
      const cases = await Promise.all(["a", "b"].map((id) => job.openCase({ id, name: id })));
      const work = cases.map(async (item) => {
        const answer = await item.ask({ question: "Who?", fields: schema });
        await item.step("note", () => asked.push(item.ref));
        return answer.name;
      });
      return { names: await Promise.all(work) };
    });
    await using first = await testServer({ agents: [agent], store: undefined });
    const answer = (server: typeof first, id: string, name: unknown) =>
      server.service.get(RUNNER).answer("job-1", id, { answer: { name }, message: null });

    await startJob(first.service, { id: "job-1" });
    await expect.poll(async () => (await first.service.get(JOBS).find("job-1"))?.open_questions).toBe(2);
    await expect(answer(first, "a", "Bob")).rejects.toMatchObject({ detail: "name: Nobody knows them." });
    await answer(first, "b", "Ada");
    await expect.poll(() => asked).toEqual(["b"]);
    await first.service.close();
    await using second = await testServer({ agents: [agent], store: undefined, dataDir: first.dataDir });
    await second.service.ready();
    await expect
      .poll(() =>
        answer(second, "a", "Ada").then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
    const job = await until(second.service, "job-1");

    expect(job).toMatchObject({ error: null, result: { names: ["Ada", "Ada"] } });
    expect(asked).toEqual(["b", "a"]);
  });

  it("checks the default answer of a question", async () => {
    const agent = agentOf(async ({ job, fields }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      const name = fields.n === 1 ? "Ada" : "Bob";
      return item.ask({
        question: "Who?",
        fields: schema,
        deadline: "1ms",
        onTimeout: "default",
        default: { name },
      });
    });
    await using server = await testServer({ agents: [agent] });

    await startJob(server.service, { id: "good" });
    await startJob(server.service, { id: "bad", fields: { n: 2 } });

    expect(await until(server.service, "good")).toMatchObject({
      status: "completed",
      result: { name: "Ada" },
    });
    expect((await until(server.service, "bad")).error).toContain("name: Nobody knows them");
  });
});

describe("chat and custom methods", () => {
  const fields = z.object({ text: z.string(), loud: z.boolean().default(false) });
  const agent = defineAgent({
    name: "Worker",
    version: "1.0.0",
    methods: {
      job_start: { run: () => "done" },
      chat: {
        fields,
        run: ({ fields }) => ({ said: fields.loud ? fields.text.toUpperCase() : fields.text }),
      },
      custom: {
        count: {
          fields: v.object({ text: v.string() }),
          run: ({ fields }) => ({ message: `${fields.text.length}` }),
        },
      },
    },
  });

  it("have their inputs checked", async () => {
    await using server = await testServer({ agents: [agent] });
    const chat = (params: object) => server.request("/agents/worker/chat", { json: { params } });
    const custom = (job_fields: object) =>
      server.request("/agents/worker/custom/count", {
        json: { job_context: jobContext("job-1"), job_fields },
      });

    const answers = [
      await chat({ text: "hi", loud: true }),
      await chat({ text: 5 }),
      await chat({ texd: "hi" }),
    ];
    const counted = await custom({ text: "four" });
    const refused = await custom({});

    expect(answers.map(({ status }) => status)).toEqual([200, 422, 422]);
    expect(await answers[0]!.json()).toEqual({ said: "HI" });
    expect(await counted.json()).toMatchObject({ message: "4" });
    expect(await refused.json()).toMatchObject({ detail: "text is required." });
  });
});

/** Types refuse it. */
const HIDDEN = v.object({
  a: v.pipeAsync(
    v.string(),
    v.checkAsync(async () => false),
  ) as unknown as v.GenericSchema,
});
const PASSED_OVER = /asynchronous check inside a synchronous schema/;

describe("an agent is refused", () => {
  const define = (fields: unknown) => () =>
    new AgentRegistry([
      {
        name: "Worker",
        version: "1.0.0",
        methods: { job_start: { fields: fields as FieldsInput, run: () => 1 } },
      },
    ]);

  it.each([
    [
      "whose library has no JSON Schema",
      z3.object({ a: z3.string() }),
      /need a JSON Schema .* zod schema has none: use/,
    ],
    ["whose schema is no object", z.string(), /must be an object schema that lists its properties/],
    ["whose schema names no properties", z.record(z.string(), z.string()), /must be an object schema/],
    ["whose fields are no schema", { a: v.string() }, /must be an object schema of valibot, zod 4, ArkType/],
    ["that hides an asynchronous check in a synchronous valibot schema", HIDDEN, PASSED_OVER],
    ["that hides one deeper", v.objectAsync({ a: HIDDEN, b: v.array(v.string()) }), PASSED_OVER],
  ])("%s", (_name, fields, message) => {
    expect(define(fields)).toThrow(message);
  });
});

describe("a schema of another library", () => {
  const schema = (message: string) => ({
    "~standard": {
      version: 1 as const,
      vendor: "mine",
      validate: () => ({ issues: [{ message, path: [{ key: "name" }] }] }),
      jsonSchema: {
        input: () => ({ $ref: "#/$defs/Who", $defs: { Who: { properties: { name: { type: "string" } } } } }),
        output: () => ({}),
      },
    },
  });

  it("is drawn from its Standard JSON Schema, and its messages are shown if they do not repeat the value", async () => {
    await using plain = await echo(schema("Nobody knows them"));
    await using telling = await echo(schema("hunter2 is not known"));

    const answers = [await start(plain, { name: "hunter2" }), await start(telling, { name: "hunter2" })];

    expect(Object.keys(await formOf(plain))).toEqual(["name"]);
    expect(answers.map(({ text }) => JSON.parse(text).detail)).toEqual([
      "name: Nobody knows them.",
      "name is not valid.",
    ]);
  });
});
