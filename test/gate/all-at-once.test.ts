// @area service admin protocols
// @long
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { hostileUrls, receiver, statesOf, work } from "../a2a/_hostile.ts";
import { signIn } from "../admin/_sign-in.ts";
import { access, project } from "../cli/_svc.ts";
import { EventReader } from "../http/_event-reader.ts";
import { REFUNDS } from "../mcp/_controller.ts";
import { ServiceProcess } from "../runs/_process.ts";

const CONTROLLER = `
import { a2a } from "agent-control-service/a2a";

${REFUNDS}
export default createServer({ port: 0, agents: [refunds], plugins: [a2a({ allowPrivate: true })] });
`;

interface Address {
  readonly url: string;
  readonly key: string;
}

/** Calls `once` again and again, from so many places, until the test ends; what it came to. */
function forever<T>(places: number, once: (signal: AbortSignal) => Promise<T>): T[] {
  const results: T[] = [];
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const loop = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      try {
        results.push(await once(stop.signal));
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      }
    }
  };
  for (let place = 0; place < places; place++) void loop();
  return results;
}

/** A thousand pages, each with the token of one of fifty jobs, which follow their jobs until the test ends. */
async function openPages(service: ServiceProcess, { url }: Address): Promise<number[]> {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const pages: { id: string; token: string }[] = [];
  for (let nth = 0; nth < 50; nth++) {
    const id = `page-${nth}`;
    await service.startJob("refunds", id, { order: id });
    const made = await service.send(`/jobs/${id}/tokens`, { name: nth % 2 ? "ada" : "bob" });
    const { token } = (await made.json()) as { token: string };
    for (let page = 0; page < 20; page++) pages.push({ id, token });
  }
  const open = async ({ id, token }: (typeof pages)[number]) => {
    const headers = { authorization: `Bearer ${token}` };
    return (await fetch(`${url}/jobs/${id}/stream`, { headers, signal: stop.signal })).status;
  };
  return Promise.all(pages.map(open));
}

it("dead receivers, a thousand pages and a flood of wrong links at the same time are not felt by good clients", async () => {
  const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
  const address = await access(service.folder);
  const { url, key } = address;
  const ask = (path: string, headers: Record<string, string> = { "x-api-key": key }) =>
    fetch(url + path, { headers });
  const { got, url: good } = await receiver();
  const hostile = await hostileUrls();

  const health = forever(1, async (signal) => {
    const { status } = await fetch(`${url}/.well-known/health`, { signal });
    await delay(50, undefined, { signal });
    return status;
  });
  const wrong = forever(8, async (signal) => {
    const response = await fetch(`${url}/answer?token=wrong`, { signal });
    await response.text();
    return response.status;
  });
  const tasks: string[] = [];
  const [pages] = await Promise.all([
    openPages(service, address),
    ...hostile.map((each) => work(address, [each, `${each}/other`, `${each}/third`])),
    work(address, [...hostile.slice(0, 9), good]).then((id) => tasks.push(id)),
  ]);

  // A link that is right, beside the wrong ones; operators who follow what comes of it, beside the pages.
  await service.startJob("refunds", "asked", { order: "7" });
  await service.until("asked", ["awaiting"]);
  const [item] = (await (await ask("/jobs/asked/cases")).json()) as [{ id: string }];
  const made = await service.send(`/admin/api/cases/${item.id}/links`, { name: "Mira" });
  const { path } = (await made.json()) as { path: string };
  const token = new URL(path, url).searchParams.get("token")!;
  const cookie = await signIn(address, "Ada");
  const streams = [
    await ask("/jobs/asked/stream"),
    await ask("/admin/api/live?job=asked"),
    await ask("/admin/api/live?job=asked", { cookie }),
  ];
  const opened = streams.map(({ status }) => status);
  await using byKey = new EventReader(streams[0]!);
  await using live = new EventReader(streams[1]!);
  await using person = new EventReader(streams[2]!);
  const shown = await fetch(url + path);
  const answered = await fetch(`${url}/answer`, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ token, "f.approved": "true" }).toString(),
  });
  const heard = async (reader: EventReader, text: string) => {
    for (let event = await reader.next(); event; event = await reader.next())
      if (JSON.stringify(event).includes(text)) return true;
    return false;
  };

  expect(opened).toEqual([200, 200, 200]);
  expect([shown.status, answered.status]).toEqual([200, 200]);
  expect([await heard(byKey, "Mira"), await heard(live, "asked"), await heard(person, "asked")]).toEqual([
    true,
    true,
    true,
  ]);

  // A receiver that works, in tasks that it shares with dead ones and in its own.
  for (let nth = 0; nth < 3; nth++) tasks.push(await work(address, [good]));
  for (const id of tasks)
    await expect.poll(() => got.filter((line) => line.startsWith(id))).toEqual(statesOf(id));

  // At most half are open at the same time; what ends makes room.
  const open = pages.filter((status) => status === 200).length;
  expect(open).toBeGreaterThanOrEqual(500);
  expect(open).toBeLessThan(pages.length);
  expect(new Set(pages)).toEqual(new Set([200, 503]));
  expect(wrong.filter((status) => status === 429).length).toBeGreaterThan(100);
  expect(new Set(wrong)).toEqual(new Set([404, 429]));
  expect(health.length).toBeGreaterThan(10);
  expect(new Set(health)).toEqual(new Set([200]));
}, 300_000);
