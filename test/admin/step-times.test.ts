import { defineAgent } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { formatDuration } from "../../src/plugins/admin/views/format.ts";
import { jobContext, until } from "../runs/_jobs.ts";

interface Row {
  readonly name: string;
  readonly cost: number;
  readonly spans: readonly { readonly kind: string; readonly from: number; readonly to: number }[];
  readonly from: number;
  readonly to: number;
}

async function rowsOf(server: TestServer, id: string): Promise<Row[]> {
  const response = await server.request(`/admin/api/jobs/${id}/timeline`);
  return ((await response.json()) as { rows: Row[] }).rows;
}

const pageOf = async (server: TestServer, id: string) =>
  (await server.request(`/admin/jobs/${id}`, { headers: { accept: "text/html" } })).text();

it("a step that a stop cut short has the time for which it ran", async () => {
  let began = (_: number) => {};
  const beginning = new Promise<number>((resolve) => {
    began = resolve;
  });
  const busy = defineAgent({
    name: "Busy",
    version: "1.0.0",
    methods: {
      job_start: {
        run: ({ job, signal }) =>
          job.step("upload", () => {
            began(Date.now());
            return new Promise((_, reject) =>
              signal.addEventListener("abort", () => reject(signal.reason as Error)),
            );
          }),
      },
    },
  });
  await using server = await testServer({ agents: [busy] });
  await server.request("/agents/busy/jobs", { json: { job_context: jobContext("cut"), job_fields: {} } });
  const begun = await beginning;
  await expect.poll(() => Date.now()).toBeGreaterThan(begun + 20);
  const since = (await server.service.get(JOBS).get("cut"))!.created_at;
  // The time of the whole timeline grows with those of its lines.
  expect(await pageOf(server, "cut")).toContain(
    `Timeline</h2><span class="soft"><span data-since="${since}">`,
  );
  await server.service.get(RUNNER).stop("cut");
  await until(server.service, "cut");

  const upload = (await rowsOf(server, "cut")).find(({ name }) => name === "upload")!;

  expect(upload.from).toBeLessThanOrEqual(begun);
  expect(upload.to).toBeGreaterThan(begun + 20);
  // It has not failed, and has no red.
  expect(upload.spans.map(({ kind }) => kind)).not.toContain("failed");
  expect(await pageOf(server, "cut")).toMatch(/<span class="">The run ended before the step/);
});

it("a step with several attempts has its whole time and cost, and each attempt its own", async () => {
  const flaky = defineAgent({
    name: "Flaky",
    version: "1.0.0",
    methods: {
      job_start: {
        run: ({ job }) =>
          job.step(
            "upload",
            () => {
              throw new Error("connect ECONNREFUSED");
            },
            { retries: 1, backoff: { initial: "60ms" }, cost: 0.01 },
          ),
      },
    },
  });
  await using server = await testServer({ agents: [flaky] });
  await server.request("/agents/flaky/jobs", { json: { job_context: jobContext("lost"), job_fields: {} } });
  await until(server.service, "lost");

  const html = await pageOf(server, "lost");
  const [row] = (await rowsOf(server, "lost")).filter(({ name }) => name === "upload");
  const log = (await server.service.get(JOBS).log("lost")).map(({ entry }) => entry);
  const last = log.find((entry) => entry.type === "call")!;

  expect(row!.to - row!.from).toBeGreaterThanOrEqual(60);
  expect(row!.cost).toBe(0.02);
  expect(html).toContain(`2 attempts · ${formatDuration(row!.to - row!.from)} · $0.02`);
  expect(row!.spans.at(-1)).toMatchObject({ from: Date.parse(last.started_at!), to: Date.parse(last.at) });
  const own = formatDuration(Date.parse(last.at) - Date.parse(last.started_at!));
  expect(html.replaceAll(/(\s*<[^>]*>)+\s*/g, " ")).toContain(` Attempt 2 ${own} $0.01 `);
});

it("a step that sleeps says so", async () => {
  const sleeper = defineAgent({
    name: "Sleeper",
    version: "1.0.0",
    methods: { job_start: { run: ({ job }) => job.sleep("8h") } },
  });
  await using server = await testServer({ agents: [sleeper] });
  await server.request("/agents/sleeper/jobs", {
    json: { job_context: jobContext("night"), job_fields: {} },
  });
  await expect.poll(async () => (await rowsOf(server, "night")).length).toBe(2);

  const html = await pageOf(server, "night");

  expect(html).toContain('<span class="st st-waiting">Sleeping</span>');
});
