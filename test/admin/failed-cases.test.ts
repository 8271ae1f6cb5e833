import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";

const importer = defineAgent({
  name: "Importer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [],
      async run({ job }) {
        for (let at = 0; at < 5; at++) {
          const item = await job.openCase({ id: `${job.id}-${at}`, name: `Row ${at}` });
          await item.step("read", () => at);
          await (at < 2 ? item.fail("no match") : item.close());
        }
        return { message: "done" };
      },
    },
  },
});

it("a completed job with failed cases says so: on its page, in the list, in the export and in the API", async () => {
  await using server = await testServer({ agents: [importer] });
  await server.request("/agents/importer/jobs", {
    json: { job_context: { job_id: "import", job_instructions: { stop_on_error: false } } },
    headers: { prefer: "wait=30" },
  });
  const text = async (path: string, accept = "text/html") =>
    (await server.request(path, { headers: { accept } })).text();
  await expect.poll(() => text("/jobs/import", "application/json")).toContain('"status":"completed"');

  const page = await text("/admin/jobs/import");
  const list = await text("/admin/jobs");
  const rows = JSON.parse(await text("/admin/api/jobs", "application/json")) as { items: object[] };
  const csv = await text("/admin/api/jobs/export", "text/csv");

  expect(page).toMatch(/Completed in [^,<]+, 2 of 5 cases failed/);
  expect(page).toContain("/admin/cases?job_id=import&amp;status=failed");
  expect(list).toContain("2 of 5 cases failed");
  expect(rows.items).toMatchObject([{ id: "import", case_count: 5, failed_cases: 2 }]);
  const [columns, row] = csv.split("\r\n").map((line) => line.split(","));
  expect(row![columns!.indexOf("failed_cases")]).toBe("2");
});

it("the page of a completed job with failed cases opens the first of them, with its error", async () => {
  await using server = await testServer({ agents: [importer] });
  await server.request("/agents/importer/jobs", {
    json: { job_context: { job_id: "import", job_instructions: { stop_on_error: false } } },
    headers: { prefer: "wait=30" },
  });

  const page = await (
    await server.request("/admin/jobs/import", { headers: { accept: "text/html" } })
  ).text();
  const panel = page.slice(page.indexOf('id="step-title"'));

  expect(panel.slice(0, panel.indexOf("</section>"))).toMatch(/Row 0[\s\S]*no match[\s\S]*cases\/import-0/);
  expect(page).toMatch(/aria-current="true"[^>]*><bdi>Row 0</);
});

it("the page of a failed case begins with its error", async () => {
  await using server = await testServer({ agents: [importer] });
  await server.request("/agents/importer/jobs", {
    json: { job_context: { job_id: "import", job_instructions: { stop_on_error: false } } },
    headers: { prefer: "wait=30" },
  });
  const errorOf = async (id: string) => {
    const response = await server.request(`/admin/cases/${id}`, { headers: { accept: "text/html" } });
    const [, error] = /aria-label="Error"><pre[^>]*>([^<]*)</.exec(
      (await response.text()).split('id="timeline-title"')[0]!,
    ) ?? [null, ""];
    return error;
  };

  expect(await errorOf("import-0")).toBe("no match");
  expect(await errorOf("import-4")).toBe("");
});
