import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { defineAgent } from "agent-control-service";
import { H3_APP } from "agent-control-service/h3";
import { JOBS, type Plugin } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { serveWithNode } from "../../src/core/http/serve.ts";
import { greeter } from "../_setup.ts";
import { EventReader } from "./_event-reader.ts";
import { storeJob } from "./_jobs.ts";

/** A route that answers when it is let go. */
function slow() {
  let begun: () => void = () => {};
  let letGo: () => void = () => {};
  const started = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const plugin: Plugin = {
    name: "slow",
    setup: ({ get }) =>
      void get(H3_APP).get("/slow", async () => {
        begun();
        await gate;
        return "finished";
      }),
  };
  return { plugin, started, letGo };
}

describe("closing a service", () => {
  it("finishes open requests, ends streams and accepts no new ones", async () => {
    const { plugin, started, letGo } = slow();
    await using server = await testServer({ agents: [greeter], plugins: [plugin] });
    await storeJob(server.service, "job-1");
    await using stream = new EventReader(await server.request("/jobs/job-1/stream"));
    await stream.take(2);
    const answer = server.request("/slow");
    await started;

    const closed = server.service.close();
    expect(await stream.rest()).toEqual([]);
    await expect(fetch(server.url)).rejects.toThrow();
    letGo();

    expect(await (await answer).text()).toBe("finished");
    await closed;
  });

  it("does not wait for idle connections", async () => {
    await using server = await testServer({ agents: [greeter] });
    const port = Number(new URL(server.url).port);
    const idle = connect(port, "127.0.0.1");
    const ended = new Promise((resolve) => idle.once("close", resolve));
    await new Promise((resolve) => idle.once("connect", resolve));

    await server.service.close();

    await ended;
    expect(idle.destroyed).toBe(true);
  });

  it("beside others answers a connection that it accepted as the last one, whose request arrives later", async () => {
    const app = { fetch: () => new Response("here") };
    const server = await serveWithNode(app, { host: "127.0.0.1", port: 0, bodyLimit: 1000 });
    const last = connect(server.port, "127.0.0.1");
    await new Promise((resolve) => last.once("connect", resolve));
    const answer = text(last);

    const closed = server.close(false, 2000);
    // It accepts no more.
    const ask = () => fetch(`http://127.0.0.1:${server.port}`, { headers: { connection: "close" } });
    await expect
      .poll(() =>
        ask().then(
          () => "answers",
          () => "refused",
        ),
      )
      .toBe("refused");
    await new Promise((resolve) => setTimeout(resolve, 100));
    last.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");

    expect(await answer).toMatch(/^HTTP\/1.1 200.*\r\n\r\n.*here/s);
    await closed;
  });

  it("cuts off requests that do not end in time", async () => {
    const { plugin, started } = slow();
    await using server = await testServer({ agents: [greeter], plugins: [plugin], shutdownGrace: 0 });
    const answer = server.request("/slow").catch((error: unknown) => error);
    await started;

    await server.service.close();

    expect(await answer).toBeInstanceOf(TypeError);
  });

  it("happens once, however often it is requested", async () => {
    await using server = await testServer({ agents: [greeter] });

    const closed = server.service.close();

    expect(server.service.close()).toBe(closed);
    await closed;
  });
});

describe("listening", () => {
  it("twice is once", async () => {
    await using server = await testServer({ agents: [greeter] });

    const [one, two] = await Promise.all([server.service.listen(), server.service.listen()]);

    expect(one.url).toBe(server.url);
    expect(two).toBe(one);
  });

  it("on a port in use is reported, with what to do", async () => {
    await using server = await testServer({ agents: [greeter] });
    const port = Number(new URL(server.url).port);

    await expect(testServer({ agents: [greeter], port })).rejects.toThrow(
      `Port ${port} on 127.0.0.1 is in use: stop the program that listens there, or choose another port`,
    );
  });

  it("on a port in use leaves unfinished jobs as they are", async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "port-taken-"));
    const calls: string[] = [];
    const agent = defineAgent({
      name: "Waiter",
      version: "1.0.0",
      methods: {
        job_start: {
          run: async ({ job }) => {
            calls.push(job.id);
            await job.sleep("1 h");
          },
        },
      },
    });
    const options = { agents: [agent], dataDir, store: undefined, shutdownGrace: 0 };
    try {
      {
        await using server = await testServer(options);
        await server.request("/agents/waiter/jobs", {
          json: { job_context: { job_id: "job-1" }, job_fields: {} },
        });
        await expect.poll(() => calls).toEqual(["job-1"]);
      }
      await using other = await testServer({ agents: [greeter] });
      const port = Number(new URL(other.url).port);

      await expect(testServer({ ...options, port })).rejects.toThrow("is in use");

      expect(calls).toEqual(["job-1"]);
      await using next = await testServer(options);
      const log = await next.service.get(JOBS).log("job-1");
      const interruptions = log.filter(({ entry }) => entry.type === "mark" && entry.mark === "interrupted");
      expect(interruptions).toHaveLength(1);
    } finally {
      rmSync(dataDir, { recursive: true });
    }
  });

  it("on an address of another machine is reported", async () => {
    await expect(testServer({ agents: [greeter], host: "203.0.113.7" })).rejects.toThrow(
      '"203.0.113.7" is not an address of this machine',
    );
  });
});
