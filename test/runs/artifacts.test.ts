import { defineAgent, file } from "agent-control-service";
import { client } from "agent-control-service/client";
import { JOBS } from "agent-control-service/plugin";
import { crashTest, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it } from "vitest";
import { until } from "./_jobs.ts";

const writer = defineAgent({
  name: "Writer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ contract: v.optional(file()) }),
      run: async ({ job, fields }) => {
        const item = await job.openCase({ id: job.id, name: "Report" });
        const report = await item.step("report", ({ file }) => file("report.txt", "found nothing"));
        await item.artifact("report", report, { title: "Findings" });
        const again = await item.step("second report", ({ file }) => file("report.txt", "found one"));
        const shown = await item.artifact("report", again, { title: "Findings, corrected" });
        if (fields.contract) await job.artifact("contract", fields.contract);
        await item.close({ report: shown });
        return { shown };
      },
    },
  },
});

it("an artifact is listed with its case and title, once, in the API, in the client and on pages", async () => {
  await using server = await testServer({ agents: [writer] });
  const service = client<typeof writer>(server.url, server.key);
  const contract = await service.upload(new File(["c"], "contract.txt", { type: "text/plain" }));
  const job = await service.start("writer", { contract });
  await job.result();
  const files = await job.files();
  expect(
    files.map(({ name, origin, case_id, artifact, title }) => [
      name,
      origin,
      case_id !== null,
      artifact,
      title,
    ]),
  ).toEqual(
    expect.arrayContaining([
      ["contract.txt", "field", false, "contract", undefined],
      ["report.txt", "step", true, "report", "Findings"],
      ["report.txt", "step", true, "report", "Findings, corrected"],
    ]),
  );
  expect(files).toHaveLength(3);
  const corrected = files.find(({ title }) => title === "Findings, corrected")!;
  expect(await (await job.download(corrected)).text()).toBe("found one");
  for (const path of [`/admin/jobs/${job.id}`, `/admin/cases/${corrected.case_id}`]) {
    const page = await (await server.request(path, { headers: { accept: "text/html" } })).text();
    expect(page).toMatch(/<bdi>Findings, corrected<\/bdi>[\s\S]*<span class="tag">report<\/span>/);
    expect(page.indexOf("Findings, corrected</bdi>")).toBeLessThan(page.indexOf("<bdi>Findings</bdi>"));
  }
});

const reader = defineAgent({
  name: "Reader",
  version: "1.0.0",
  methods: {
    job_start: {
      run: async ({ job }) => {
        const given = await job.file("a.txt", "ä few bytes");
        return job.step("read", async () => {
          const opened = job.open(given);
          const bytes = await opened.bytes();
          const own = bytes.buffer.byteLength === bytes.length && !Buffer.isBuffer(bytes);
          // As libraries do that work in another thread.
          structuredClone(bytes, { transfer: [bytes.buffer as ArrayBuffer] });
          return { own, text: await opened.text(), size: (await opened.blob()).size };
        });
      },
    },
  },
});

it("the bytes of a file are memory of their own, which others may transfer", async () => {
  await using server = await testServer({ agents: [reader] });
  const job = await client<typeof reader>(server.url, server.key).start("reader", {});
  expect(await job.result()).toEqual({ own: true, text: "ä few bytes", size: 12 });
});

it("an artifact is noted once, whenever the process ends", async () => {
  expect((await crashTest(writer)).interruptions).toBeGreaterThan(10);
});

const forger = defineAgent({
  name: "Forger",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ what: v.string() }),
      run: async ({ job, fields }) => {
        const given = { name: "x", type: "text/plain", size: 1, sha256: "0".repeat(64) };
        if (fields.what === "foreign") await job.artifact("report", given);
        if (fields.what === "none") await job.artifact("report", { name: "x" } as never);
        if (fields.what === "unnamed") await job.artifact("", given);
      },
    },
  },
});

it.each([
  ["foreign", "has no file with the SHA-256"],
  ["none", 'The artifact "report" must be a file'],
  ["unnamed", "artifact was called without a name"],
])("an artifact that is %s fails the job", async (what, error) => {
  await using server = await testServer({ agents: [forger] });
  const job = await client(server.url, server.key).start("forger", { what });
  await until(server.service, job.id, ["failed"]);
  expect((await server.service.get(JOBS).get(job.id)).error).toContain(error);
});
