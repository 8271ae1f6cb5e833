import { connect } from "node:net";
import type { Service } from "agent-control-service";
import { H3_APP } from "agent-control-service/h3";
import {
  type Caller,
  HOOKS,
  JOBS,
  type Plugin,
  REDACTOR,
  STORE,
  STREAMS,
} from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { moveJob, overrideJob } from "../../src/core/entities/change-job.ts";
import { removeJob } from "../../src/core/entities/remove-job.ts";
import { JobFeed } from "../../src/core/http/job-feed.ts";
import { LiveStreams } from "../../src/core/http/live-streams.ts";
import { Emissions } from "../../src/core/runs/emissions/emissions.ts";
import { describeServer, greeter } from "../_setup.ts";
import { signIn } from "../admin/_sign-in.ts";
import { EventReader } from "./_event-reader.ts";
import { note, storeJob, write } from "./_jobs.ts";

describeServer("the stream of a job", ({ start }) => {
  const follow = async (server: TestServer, id: string, lastEventId?: string) =>
    server.request(`/jobs/${id}/stream`, {
      headers: lastEventId === undefined ? {} : { "last-event-id": lastEventId },
    });

  it("starts with the job, sends past and new events, and ends with the job", async () => {
    await using server = await start();
    await storeJob(server.service, "job-1");

    const response = await follow(server, "job-1");
    await using reader = new EventReader(response);
    const [snapshot, created] = await reader.take(2);
    await write(server.service, (unit) => moveJob(unit, "job-1", "start_work"));
    await write(server.service, (unit) =>
      moveJob(unit, "job-1", "successfully_done", { result: { message: "done" } }),
    );
    const rest = await reader.rest();

    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(snapshot).toMatchObject({ event: "snapshot", data: { id: "job-1", status: "stopped" } });
    expect(snapshot?.id).toBeUndefined();
    expect(snapshot?.data).not.toHaveProperty("fingerprint");
    expect(created).toMatchObject({ event: "status", id: "1", data: { from: null, to: "stopped" } });
    expect(rest).toMatchObject([
      { event: "status", id: "2", data: { from: "stopped", to: "in_progress" } },
      { event: "status", id: "3", data: { from: "in_progress", to: "completed" } },
      { event: "end", data: { status: "completed" } },
    ]);
  });

  it("continues after the last event id without a gap or a repeat", async () => {
    await using server = await start();
    await storeJob(server.service, "job-1");
    for (let line = 2; line <= 150; line++) await note(server.service, "job-1", `line ${line}`);

    await using first = new EventReader(await follow(server, "job-1"));
    const seen = (await first.take(100)).filter(({ id }) => id !== undefined);
    await first[Symbol.asyncDispose]();
    for (let line = 151; line <= 200; line++) await note(server.service, "job-1", `line ${line}`);
    await write(server.service, (unit) => overrideJob(unit, "job-1", "cancelled", "test"));
    await using second = new EventReader(await follow(server, "job-1", seen.at(-1)?.id));
    seen.push(...(await second.rest()).filter(({ id }) => id !== undefined));

    expect(seen.map(({ id }) => Number(id))).toEqual(Array.from({ length: 201 }, (_, index) => index + 1));
  });

  it("sends nothing for a job whose end the reader knows", async () => {
    await using server = await start();
    await storeJob(server.service, "job-1");
    await write(server.service, (unit) => overrideJob(unit, "job-1", "failed", "test"));

    const known = await follow(server, "job-1", "2");
    await using partly = new EventReader(await follow(server, "job-1", "1"));

    expect(known.status).toBe(204);
    expect((await partly.rest()).map(({ event }) => event)).toEqual(["snapshot", "status", "end"]);
  });

  it("ends when the job is deleted", async () => {
    await using server = await start();
    await storeJob(server.service, "job-1");

    await using reader = new EventReader(await follow(server, "job-1"));
    await reader.take(2);
    await write(server.service, (unit) => removeJob(unit, "job-1"));

    expect(await reader.rest()).toMatchObject([{ event: "end", data: { status: "deleted" } }]);
  });

  it("reaches many readers, each in full", async () => {
    await using server = await start();
    await storeJob(server.service, "job-1");

    const readers = await Promise.all(
      Array.from({ length: 20 }, async () => new EventReader(await follow(server, "job-1"))),
    );
    const all = readers.map((reader) => reader.rest());
    await Promise.all(
      Array.from({ length: 100 }, (_, line) => note(server.service, "job-1", `line ${line}`)),
    );
    await write(server.service, (unit) => overrideJob(unit, "job-1", "completed", "test"));

    for (const events of await Promise.all(all)) {
      const ids = events.filter(({ id }) => id).map(({ id }) => Number(id));
      expect(ids).toEqual(Array.from({ length: 102 }, (_, index) => index + 1));
    }
    await expect.poll(() => server.service.get(STREAMS).size).toBe(0);
  });

  it("is refused for an unknown job, a bad id and a bad Last-Event-ID", async () => {
    await using server = await start();
    await storeJob(server.service, "job-1");

    const unknown = await follow(server, "job-2");
    const bad = await server.request("/jobs/.hidden/stream");
    const badEvent = await follow(server, "job-1", "x");
    const noKey = await server.request("/jobs/job-1/stream", { key: null });

    expect([unknown.status, bad.status, badEvent.status, noKey.status]).toEqual([404, 422, 422, 401]);
  });

  it("responds to HEAD without opening a stream", async () => {
    await using server = await start();
    await storeJob(server.service, "job-1");

    const response = await server.request("/jobs/job-1/stream", { method: "HEAD" });

    expect(response.status).toBe(200);
    expect(server.service.get(STREAMS).size).toBe(0);
  });

  it("ends when the service closes", async () => {
    await using server = await start();
    await storeJob(server.service, "job-1");
    await using reader = new EventReader(await follow(server, "job-1"));
    await reader.take(2);

    await server.service.close();

    expect(await reader.rest()).toEqual([]);
  });
});

describe("live streams", () => {
  it("are closed when the reader disconnects", async () => {
    await using server = await testServer({ agents: [greeter] });
    await storeJob(server.service, "job-1");
    const stop = new AbortController();

    const response = await server.request("/jobs/job-1/stream", { signal: stop.signal });
    await using reader = new EventReader(response);
    await reader.take(2);
    stop.abort();

    await expect.poll(() => server.service.get(STREAMS).size).toBe(0);
  });

  it("send keep-alive comments while nothing happens", async () => {
    await using server = await testServer({ agents: [greeter], plugins: [stream({ heartbeat: 20 })] });
    await storeJob(server.service, "job-1");

    await using reader = new EventReader(await server.request("/quick/job-1"));
    await reader.take(2);
    setTimeout(
      () => void write(server.service, (unit) => overrideJob(unit, "job-1", "completed", "test")),
      200,
    );
    await reader.rest();

    expect(reader.comments).toBeGreaterThan(1);
  });

  it("drop a reader that stops reading, and buffer almost nothing for it", async () => {
    const streams = new LiveStreams({ heartbeat: 50, patience: 4 });
    await using server = await testServer({ agents: [greeter], plugins: [stream({}, streams)] });
    await storeJob(server.service, "job-1");
    const line = "x".repeat(64 * 1024);
    for (let count = 0; count < 500; count++) await note(server.service, "job-1", line);
    const before = process.memoryUsage().arrayBuffers;

    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    socket.on("error", () => {});
    socket.pause();
    socket.write(`GET /quick/job-1 HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: ${server.key}\r\n\r\n`);
    await expect.poll(() => streams.size).toBe(1);
    const grown = process.memoryUsage().arrayBuffers - before;
    await expect.poll(() => streams.size).toBe(0);
    socket.destroy();

    // 32 MB wait to be read; one batch and what the sockets hold may be on the way.
    expect(grown).toBeLessThan(16 * 1024 * 1024);
  });

  it("are limited in number", async () => {
    const streams = new LiveStreams({ most: 1 });
    const wait = () => new Promise<undefined>(() => {});

    streams.open(wait);

    expect(() => streams.open(wait)).toThrow("Too many live streams");
    streams.close();
    expect(streams.size).toBe(0);
  });

  it("leave a share to others, and release the share of a closed stream", async () => {
    const streams = new LiveStreams({ most: 4 });
    const wait = () => new Promise<undefined>(() => {});
    const key = { caller: { kind: "key" } } as const;

    const first = streams.open(wait, key);
    streams.open(wait, key);

    expect(() => streams.open(wait, key)).toThrow("This caller has too many live streams open");
    streams.open(wait, { caller: { kind: "session", session: "tcfG7O" } });
    await first.body?.cancel();
    streams.open(wait, key);
    expect(() => streams.open(wait, key)).toThrow("This caller has too many live streams open");
    streams.close();
    streams.close();
    expect(streams.size).toBe(0);
  });

  it("have room for the key and for people, whatever tokens, keys and sessions have open", () => {
    const kinds: Record<string, (nth: number) => Caller> = {
      tokens: (nth) => ({ kind: "token", name: "Ada", job: `job-${nth}` }),
      key: () => ({ kind: "key" }),
      people: (nth) => ({ kind: "session", session: `s${nth}` }),
      holders: (nth) => ({ kind: "key", name: `key ${nth % 7}`, access: `a${nth % 7}` }),
    };
    const wait = () => new Promise<undefined>(() => {});
    const orders = [
      ["tokens", "key", "people"],
      ["tokens", "people", "key"],
      ["key", "tokens", "people"],
      ["key", "people", "tokens"],
      ["people", "tokens", "key"],
      ["people", "key", "tokens"],
      ["holders", "tokens", "people", "key"],
      ["tokens", "holders", "key", "people"],
      ["people", "holders", "tokens", "key"],
      ["key", "holders", "people"],
    ] as const;

    for (const order of orders) {
      const streams = new LiveStreams({ most: 100 });
      const opened = { tokens: 0, key: 0, people: 0, holders: 0 };
      for (const kind of order) {
        for (let nth = 0; nth < 200; nth++) {
          try {
            streams.open(wait, { caller: kinds[kind]!(nth) });
            opened[kind]++;
          } catch {
            // There is no room.
          }
        }
      }

      expect(opened.tokens, `${order}`).toBeLessThanOrEqual(50);
      expect(opened.key, `${order}`).toBeGreaterThanOrEqual(10);
      expect(opened.people, `${order}`).toBeGreaterThanOrEqual(10);
      expect(streams.size).toBeLessThanOrEqual(100);
      streams.close();
    }
  });

  it("end when their caller may no longer be here, also where the clock is set forward meanwhile", async () => {
    let ahead = 0;
    const clock = () => new Date(Date.now() + ahead);
    const streams = new LiveStreams({ clock });
    const until = new Date(Date.now() + 3_600_000);
    const wait = () => new Promise<undefined>(() => {});
    streams.open(wait, { caller: { kind: "token", job: "job-1", until } });

    ahead = 3_600_000;

    await expect.poll(() => streams.size, { timeout: 10_000 }).toBe(0);
  });

  it("of one person, or of one named key, are at most half, from however many sessions", () => {
    const wait = () => new Promise<undefined>(() => {});
    const streams = new LiveStreams({ most: 100 });
    const open = (caller: Caller): boolean => {
      try {
        streams.open(wait, { caller });
        return true;
      } catch {
        return false;
      }
    };
    const ada = Array.from({ length: 90 }, (_, nth) =>
      open({ kind: "session", session: `s${nth}`, name: "Ada", access: "ada" }),
    );

    expect(ada.filter(Boolean)).toHaveLength(50);
    expect(open({ kind: "session", session: "other", name: "Bob", access: "bob" })).toBe(true);
    streams.close();
  });

  it("of a thousand pages with tokens leave the operators theirs", async () => {
    await using server = await testServer({ agents: [greeter] });
    const ask = async (path: string, headers: Record<string, string>) =>
      (await server.service.fetch(new Request(server.url + path, { headers }))).status;
    const pages: [string, Record<string, string>][] = [];
    for (let nth = 0; nth < 100; nth++) {
      const id = `job-${nth}`;
      await storeJob(server.service, id);
      const made = await server.request(`/jobs/${id}/tokens`, { json: { name: nth % 2 ? "ada" : "bob" } });
      const { token } = (await made.json()) as { token: string };
      for (let page = 0; page < 10; page++) {
        pages.push([`/jobs/${id}/stream`, { authorization: `Bearer ${token}` }]);
      }
    }
    const cookie = await signIn(server, "Ada");

    const statuses = [];
    for (const [path, headers] of pages) statuses.push(await ask(path, headers));
    const one = [];
    for (let nth = 0; nth < 11; nth++) one.push(await ask(...pages[0]!));

    expect(statuses.filter((status) => status === 200)).toHaveLength(500);
    expect(new Set(statuses.slice(500))).toEqual(new Set([503]));
    expect(new Set(one)).toEqual(new Set([503]));
    expect(await ask("/jobs/job-1/stream", { "x-api-key": server.key })).toBe(200);
    expect(await ask("/admin/api/live", { "x-api-key": server.key })).toBe(200);
    expect(await ask("/admin/api/live", { cookie })).toBe(200);
  });

  it("of one job, for tokens, are twenty", async () => {
    await using server = await testServer({ agents: [greeter] });
    await storeJob(server.service, "job-1");
    await storeJob(server.service, "job-2");
    const streams = async (id: string, name: string, count: number) => {
      const made = await server.request(`/jobs/${id}/tokens`, { json: { name } });
      const { token } = (await made.json()) as { token: string };
      const headers = { authorization: `Bearer ${token}` };
      const asked = Array.from({ length: count }, () =>
        server.service.fetch(new Request(`${server.url}/jobs/${id}/stream`, { headers })),
      );
      return (await Promise.all(asked)).map(({ status }) => status);
    };

    const first = await streams("job-1", "ada", 21);

    expect(first).toEqual([...Array(20).fill(200), 429]);
    expect(await streams("job-1", "bob", 1)).toEqual([429]);
    expect(await streams("job-2", "ada", 1)).toEqual([200]);
  });

  it("of all kinds are counted together for the key, and do not count for people", async () => {
    await using server = await testServer({ agents: [greeter] });
    await storeJob(server.service, "job-1");
    const cookie = await signIn(server, "Ada");
    const paths = ["/jobs/job-1/stream", "/admin/api/live", "/admin/api/console/stream"];
    const ask = async (path: string, headers: Record<string, string>) =>
      (await server.service.fetch(new Request(server.url + path, { headers }))).status;
    const key = { "x-api-key": server.key };

    const statuses = [];
    for (let nth = 0; nth < 500; nth++) statuses.push(await ask(paths[nth % 3]!, key));
    const over = await Promise.all(paths.map((path) => ask(path, key)));
    const people = await Promise.all(paths.slice(1).map((path) => ask(path, { cookie })));

    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(over).toEqual([429, 429, 429]);
    expect(people).toEqual([200, 200]);
  });

  it("fail without harm when their source does", async () => {
    const streams = new LiveStreams();

    const response = streams.open(async () => {
      throw new Error("the log cannot be read");
    });

    await expect(response.text()).rejects.toThrow("the log cannot be read");
    expect(streams.size).toBe(0);
  });
});

/** The stream of a job at another path, with limits of its own. */
function stream(
  limits: ConstructorParameters<typeof LiveStreams>[0],
  streams = new LiveStreams(limits),
): Plugin {
  return {
    name: "quick",
    setup: ({ get }) => {
      const feed = feedOf({ get });
      get(H3_APP).get("/quick/:id", (event) => streams.open(feed.follow(event.context.params!.id!, 0)));
    },
  };
}

function feedOf({ get }: Pick<Service, "get">): JobFeed {
  const emissions = new Emissions(get(REDACTOR));
  return new JobFeed({ jobs: get(JOBS), log: get(STORE).log("Run"), hooks: get(HOOKS), emissions });
}
