import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Patience } from "../../src/cli/job/patience.ts";
import { ServiceClient } from "../../src/cli/job/service-client.ts";
import { main } from "../../src/cli/main.ts";

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const breaks: Answer = (response) => response.socket!.destroy();
const isBusy: Answer = (response) => response.writeHead(502).end("Bad gateway");
const neverAnswers: Answer = () => undefined;
const json =
  (value: unknown): Answer =>
  (response) =>
    response.setHeader("content-type", "application/json").end(JSON.stringify(value));

/** A service whose answers to requests come from a list; the last one is repeated. */
async function serve(...answers: Answer[]) {
  const requests: string[] = [];
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => void chunks.push(chunk));
    request.on("end", () => {
      bodies.push(Buffer.concat(chunks).toString());
      answers[Math.min(requests.length, answers.length) - 1]!(response, request);
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const notes: string[] = [];
  const client = (patience: Omit<Patience, "note">) =>
    new ServiceClient({
      ...{ url, key: "k", fetch },
      patience: { ...patience, note: (line) => void notes.push(line) },
    });
  const svc = async (line: string) => {
    const lines: string[] = [];
    const keep = (text: string) => void lines.push(text);
    const argv = line.split(" ");
    const env = { SERVICE_URL: url, SERVICE_API_KEY: "k" };
    const code = await main(argv, {
      ...{ argv, self: [], cwd: "/", env, print: keep, note: keep, interactive: false, platforms: {} },
    });
    return { code, text: lines.join("\n") };
  };
  return { url, requests, bodies, notes, client, svc };
}

describe("a command whose service does not answer", () => {
  it("repeats what only reads until it answers: over a broken connection, a proxy without it, a silence", async () => {
    const { client, requests, notes, url } = await serve(breaks, isBusy, neverAnswers, json([1]));

    const read = await client({ first: 0.2, quiet: 0.1 }).get("/jobs");

    expect(read).toEqual([1]);
    expect(requests).toEqual(Array(4).fill("GET /jobs"));
    expect(notes).toEqual([`The service at ${url} does not answer yet; trying for 60 s …`]);
  });

  it("says nothing where the answer comes soon", async () => {
    const { client, notes } = await serve(json([1]));

    await client({ quiet: 0.5 }).get("/jobs");
    await new Promise((done) => setTimeout(done, 600));

    expect(notes).toEqual([]);
  });

  it("gives up once its time is over, whether the service is silent or a proxy says that it is away", async () => {
    const silent = await serve(neverAnswers);
    const away = await serve(isBusy);

    const [quiet, busy] = await Promise.allSettled([
      silent.client({ seconds: 0.6, first: 0.2 }).get("/jobs"),
      away.client({ seconds: 0.6 }).get("/jobs"),
    ]);

    expect(String(quiet.status === "rejected" && quiet.reason)).toContain("No service responds at");
    expect(String(busy.status === "rejected" && busy.reason)).toContain("502");
    expect(silent.requests.length).toBeGreaterThan(1);
    expect(away.requests.length).toBeGreaterThan(1);
  });

  it("ends immediately where no service runs on this machine, or what answers will not change", async () => {
    const { client, requests } = await serve((response) =>
      response.writeHead(404).end('{"error":"No such job"}'),
    );
    const none = new ServiceClient({
      ...{ url: "http://127.0.0.1:1", key: "k", fetch },
      patience: { note: () => undefined, seconds: 1e6 },
    });

    await expect(client({ seconds: 1e6 }).get("/jobs/x")).rejects.toThrow("No such job");
    await expect(none.get("/jobs")).rejects.toThrow("No service responds at http://127.0.0.1:1");
    expect(requests).toHaveLength(1);
  });

  it("sends what changes something once, and says that it may have had its effect", async () => {
    const { svc, requests } = await serve(breaks, json({ id: "one" }));

    const { code, text } = await svc("job retry one");

    expect(code).toBe(1);
    expect(requests).toEqual(["POST /jobs/one/retry"]);
    expect(text).toMatch(/has not answered.*may have done what was asked/s);
  });

  it("sends a start again under the same id of the job, which starts one", async () => {
    const agent = json({ slug: "hello", name: "Hello", methods: { job_start: { fields: [] } } });
    const { svc, requests, bodies } = await serve(agent, breaks, json({ id: "one", data: [] }));

    const { code, text } = await svc("job start hello --workspace here");

    const [first, second] = bodies.filter((body) => body !== "");
    expect({ code, text }).toMatchObject({ code: 0, text: expect.stringContaining("Job one started") });
    expect(requests.filter((one) => one === "POST /agents/hello/jobs")).toHaveLength(2);
    expect(JSON.parse(second!)).toEqual(JSON.parse(first!));
  });

  it("svc job list succeeds while the service restarts", async () => {
    const { svc, requests } = await serve(breaks, isBusy, json([]));

    expect(await svc("job list")).toMatchObject({
      code: 0,
      text: expect.stringContaining("No matching jobs"),
    });
    expect(requests).toHaveLength(3);
  });
});
