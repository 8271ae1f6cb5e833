import { defineAgent, file } from "agent-control-service";
import { client } from "agent-control-service/client";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it } from "vitest";
import { until } from "./_jobs.ts";

const reviewer = defineAgent({
  name: "Reviewer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ contract: file() }),
      run: async ({ job, fields }) => {
        const item = await job.openCase({ id: "review", name: "Review" });
        // Too large for the record: it is stored apart.
        const { contract } = await item.step("pages", () => ({ ...fields, text: "x".repeat(300_000) }));
        const draft = await item.step("draft", ({ file }) => file("draft.txt", "the draft"));
        await item.artifact("draft", draft);
        const text = await item.step("final", async ({ file }) => {
          const read = await job.open(contract).text();
          await file("final.txt", `final of ${read}`);
          return read;
        });
        await item.close({ text });
        return text;
      },
    },
  },
});

interface Listed {
  readonly name: string;
  readonly case_id: string | null;
  readonly artifact?: string;
}

/** The files of a job: names, the refs of their cases, and what they are to people. */
async function filesOf(server: TestServer, id: string) {
  const files = (await (await server.request(`/jobs/${id}/files`)).json()) as Listed[];
  const cases = (await (await server.request(`/jobs/${id}/cases`)).json()) as { id: string }[];
  const isOwn = (one: string) => cases.some(({ id }) => id === one);
  return files
    .map(({ name, case_id, artifact }) => [
      name,
      case_id === null ? "job" : isOwn(case_id) ? "case" : "case of another job",
      ...(artifact === undefined ? [] : [artifact]),
    ])
    .sort();
}

it("a fork has the files of its fields and of the calls that it copied, with its own cases, and no others", async () => {
  await using server = await testServer({ agents: [reviewer] });
  const service = client<typeof reviewer>(server.url, server.key);
  const upload = (name: string) => service.upload(new File([name], name, { type: "text/plain" }));
  const original = await service.start("reviewer", { contract: await upload("first.txt") });
  await original.result();
  const all = [
    ["draft.txt", "case", "draft"],
    ["final.txt", "case"],
    ["first.txt", "job"],
  ];
  expect(await filesOf(server, original.id)).toEqual(all);

  const fork = async (job_id: string, from: string, fields?: object, of = original.id) => {
    const json = { from, job_id, ...(fields && { fields }) };
    // While nothing of the fork runs, it has only what was copied.
    await server.request("/admin/api/agents/reviewer/pause", { method: "POST" });
    expect((await server.request(`/jobs/${of}/fork`, { json })).status).toBe(202);
    const copied = await filesOf(server, job_id);
    await server.request("/admin/api/agents/reviewer/resume", { method: "POST" });
    const { status, result } = await until(server.service, job_id, ["completed", "failed"]);
    return { copied, status, result };
  };

  expect(await fork("again", "start")).toMatchObject({ copied: [["first.txt", "job"]], result: "first.txt" });
  const contract = await upload("second.txt");
  expect(await fork("other", "start", { contract })).toEqual({
    ...{ copied: [["second.txt", "job"]], status: "completed", result: "second.txt" },
  });
  // What it copies has the former contract, which it reads.
  expect(await fork("later", "final", { contract })).toEqual({
    copied: [
      ["draft.txt", "case", "draft"],
      ["first.txt", "job"],
      ["second.txt", "job"],
    ],
    ...{ status: "completed", result: "first.txt" },
  });
  expect((await fork("whole", "end")).copied).toEqual(all);
  // A fork of a fork has what that has copied, also what no result names.
  expect((await fork("second", "end", undefined, "whole")).copied).toEqual(all);
  expect(await filesOf(server, original.id)).toEqual(all);
});
