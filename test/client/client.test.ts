import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ClientError, client, type JobEvent, JobFailedError } from "agent-control-service/client";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { RunEntry } from "../../src/core/models/run-entry.ts";
import { agents } from "./_agents.ts";

let server: TestServer;
beforeAll(async () => {
  server = await testServer({ agents });
});
afterAll(() => server[Symbol.asyncDispose]());

const connect = (to = server, options = {}) => client<typeof agents>(to.url, to.key, options);

async function entriesOf(events: AsyncIterable<JobEvent>): Promise<RunEntry[]> {
  const entries: RunEntry[] = [];
  for await (const event of events) if (event.type === "entry") entries.push(event.entry);
  return entries;
}

describe("a client", () => {
  it("starts a job and returns its result", async () => {
    const job = await connect().start("invoice-audit", { folder: "/in" });

    const result = await job.result();

    expect(result.folder).toBe("/in");
    expect(result.found).toBe(10);
    expect(await job.read()).toMatchObject({ id: job.id, status: "completed", result });
  });

  it("starts a job once under its id", async () => {
    const service = connect();
    await service.start("invoice-audit", { folder: "/in" }, { id: "once" });

    await service.start("invoice-audit", { folder: "/in" }, { id: "once" });

    await expect(service.start("invoice-audit", { folder: "/other" }, { id: "once" })).rejects.toMatchObject({
      code: "job_already_exists",
      status: 409,
    });
  });

  it("answers a question and follows the job to its end", async () => {
    const job = await connect().start("payer", { amount: 7 });
    const seen: string[] = [];

    for await (const event of job.stream()) {
      seen.push(event.type === "end" ? event.status : event.type);
      if (event.type !== "entry" || event.entry.type !== "begun") continue;
      const [item] = await job.cases();
      expect(item?.question?.question).toBe("Pay 7?");
      await job.answer(item!.id, { approved: true });
    }

    expect(seen[0]).toBe("snapshot");
    expect(seen.at(-1)).toBe("completed");
    expect(await job.result()).toBe("paid");
    await expect(job.answer("payment", { approved: true })).rejects.toMatchObject({
      name: "ClientError",
      code: "invalid_transition",
    });
  });

  it("stops a job, whose result is rejected with the reason", async () => {
    const job = await connect().start("payer", { amount: 1 });
    await job.stop();

    const failure = await job.result().catch((error: unknown) => error);

    expect(failure).toBeInstanceOf(JobFailedError);
    expect(failure).toMatchObject({ status: "cancelled", reason: "stopped", jobId: job.id });
  });

  it("rejects with what a failed job says", async () => {
    const job = await connect().start("failing-no-result", { why: "no paper" });

    await expect(job.result()).rejects.toMatchObject({
      message: "no paper",
      status: "failed",
      reason: "error",
    });
  });

  it("resolves with null where a job returns nothing", async () => {
    const job = await connect().start("failing-no-result");

    const nothing: null = await job.result();

    expect(nothing).toBeNull();
  });

  it("lists the jobs of an agent", async () => {
    const job = await connect().start("payer", { amount: 2 });

    const page = await connect().list("payer", { limit: 1 });

    expect(page.items.map(({ job_id }) => job_id)).toEqual([job.id]);
    expect(page.total).toBeGreaterThan(1);
    expect((await connect().list(undefined, { status: "completed" })).total).toBeGreaterThan(0);
  });

  it("rejects with the service's code, message and detail", async () => {
    const untyped = client(server.url, server.key);

    await expect(untyped.start("nobody")).rejects.toMatchObject({ code: "agent_not_found", status: 404 });
    await expect(untyped.start("payer", { amount: "much" })).rejects.toMatchObject({
      code: "invalid_parameters",
      detail: expect.stringContaining("amount"),
    });
    await expect(untyped.job("nothing").read()).rejects.toMatchObject({ code: "job_not_found" });
    await expect(client(server.url, "wrong").list()).rejects.toMatchObject({ code: "unauthorized" });
    await expect(
      client("http://127.0.0.1:1", "key", { patience: 0 }).job("x").result(),
    ).rejects.toMatchObject({ code: "unreachable", status: 0 });
  });

  it("ends a wait with the reason of its signal", async () => {
    const job = await connect().start("payer", { amount: 3 });
    const over = new AbortController();
    const waits = [
      job.result({ signal: over.signal }),
      entriesOf(job.stream({ signal: over.signal })),
      connect({ ...server, url: "http://127.0.0.1:1" })
        .job("x")
        .result({ signal: over.signal }),
    ];

    over.abort(new Error("enough"));

    for (const wait of waits) await expect(wait).rejects.toThrow("enough");
  });
});

describe("a client of a service that restarts", () => {
  it("gets the result, and each entry once and in order", async () => {
    await using mortal = await testServer({ agents });
    // The address stays what it is, as behind a proxy.
    const fetch: typeof globalThis.fetch = (input, init) =>
      globalThis.fetch(String(input).replace("http://service", mortal.url), init);
    const service = client<typeof agents>("http://service", mortal.key, { fetch });
    const job = await service.start("payer", { amount: 5 });
    const result = job.result();
    const ids: number[] = [];
    let isAnswered = false;

    for await (const event of job.stream()) {
      if (event.type === "entry") ids.push(event.id);
      if (event.type === "entry" && event.entry.type === "call" && event.entry.name === "before") {
        await mortal.crash();
      }
      const [item] = isAnswered ? [] : await job.cases().catch(() => []);
      if (!item?.question) continue;
      isAnswered = true;
      await mortal.crash();
      await job.answer(item.id, { approved: false });
    }

    expect(await result).toBe("refused");
    const all: number[] = [];
    for await (const event of job.stream()) if (event.type === "entry") all.push(event.id);
    expect(ids).toEqual(all);
    expect(all).toEqual(all.map((_, at) => at + 1));
  });

  it("resumes a stream after the entry that the caller has, also when nothing is left", async () => {
    const job = await connect().start("invoice-audit", { folder: "/in" });
    await job.result();
    const all = await entriesOf(job.stream());

    expect(await entriesOf(job.stream({ after: 2 }))).toEqual(all.slice(2));
    const rest: JobEvent[] = [];
    for await (const event of job.stream({ after: all.length })) rest.push(event);
    expect(rest).toEqual([{ type: "end", status: "completed" }]);
  });

  it("starts a job once, and answers a question once, where the first response is lost", async () => {
    let lost = 0;
    const fetch: typeof globalThis.fetch = async (input, init) => {
      const response = await globalThis.fetch(input, init);
      if (init?.method !== "POST" || lost++ > 0) return response;
      throw new TypeError("connection reset");
    };
    const job = await connect(server, { fetch }).start("payer", { amount: 4 });
    expect(lost).toBe(2);
    await expect.poll(async () => (await job.cases())[0]?.question?.name).toBe("approve");

    lost = 0;
    await job.answer((await job.cases())[0]!.id, { approved: true });

    expect(lost).toBe(2);
    expect(await job.result()).toBe("paid");
    const entries = await entriesOf(job.stream());
    expect(entries.filter(({ type }) => type === "answer")).toHaveLength(1);
  });
});

describe("the key of a client", () => {
  it("does not follow a redirect", async () => {
    const seen: unknown[] = [];
    const other = createServer((request, response) => {
      seen.push(request.headers["x-api-key"]);
      response.writeHead(302, { location: `${server.url}/jobs` }).end();
    });
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void other.close());
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;

    await expect(client(url, server.key).list()).rejects.toBeInstanceOf(ClientError);

    expect(new Set(seen)).toEqual(new Set([server.key]));
  });

  it("is asked for again after it could not be had", async () => {
    let asked = 0;
    const service = client(server.url, () => {
      if (++asked === 1) throw new Error("not signed in");
      return server.key;
    });

    await expect(service.list()).rejects.toThrow("not signed in");

    expect((await service.list()).items).toBeInstanceOf(Array);
    expect(asked).toBe(2);
  });

  it("is asked for again when the service refuses it, once for all calls", async () => {
    const job = await connect().start("invoice-audit", { folder: "/in" });
    const given: string[] = [];
    const source = async () => {
      const { token } = await job.token();
      given.push(given.length === 0 ? `${token.slice(0, -4)}AAAA` : token);
      return given.at(-1)!;
    };
    const page = client(server.url, source).job(job.id);

    const [one, two] = await Promise.all([page.read(), page.cases()]);

    expect(one.id).toBe(job.id);
    expect(two).toEqual([]);
    expect(given).toHaveLength(2);
  });
});
