import { hash } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { startJob } from "../runs/_jobs.ts";

const quick = defineAgent({ name: "Quick", version: "1.0.0", methods: { job_start: { run: () => "done" } } });
const KEY = `svck_test_customer_${"k".repeat(43)}`;
const LISTS = ["/jobs", "/files", "/admin/api/jobs", "/admin/api/cases"];
const SORTS = ["-created_at", "created_at", "id", "name", "-total_cost"];
const VALUES = ["\u0000", "\ud800", "", "zzz", 7, -1e300, true, null, "2026-01-01T00:00:00.000Z"];
const forge = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString("base64url");

it("a cursor that somebody has made up, or has from somebody else, shows nothing of others and breaks nothing", async () => {
  const keys = [
    { name: "customer", role: "viewer", workspace: "acme", sha256: hash("sha256", KEY, "hex") },
  ] as const;
  await using server = await testServer({ agents: [quick], access: { keys } });
  for (const id of ["a-hidden", "m-hidden", "z-hidden"]) await startJob(server.service, { id });
  const page = await server.request("/jobs?limit=1");
  const theirs = page.headers.get("x-next-cursor")!;
  const wrong: string[] = [];
  let pages = 0;
  const ask = async (path: string) => {
    const response = await server.request(path, { key: KEY });
    const text = `${await response.text()} ${[...response.headers].join(" ")}`;
    if (response.ok) pages++;
    if (response.status >= 500 || text.includes("hidden")) wrong.push(`${path}: ${response.status} ${text}`);
  };

  await ask(`/jobs?after=${theirs}`);
  for (const list of LISTS)
    for (const sort of SORTS)
      for (const value of VALUES)
        for (const id of ["m-hidden", "\u0000", ""])
          await ask(`${list}?sort=${sort}&limit=1&after=${forge(sort, value, id)}`);

  expect(theirs).not.toBeNull();
  expect(pages).toBeGreaterThan(100);
  expect(wrong).toEqual([]);
});
