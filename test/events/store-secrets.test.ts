import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { updateCase } from "../../src/core/entities/change-case.ts";
import { changeJob } from "../../src/core/entities/change-job.ts";
import { openCase } from "../../src/core/entities/open-case.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { CASES, HOOKS, JOBS, REDACTOR } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";
import { workThrough } from "./_work.ts";

const SECRET = "planted-secret-4711";

async function textOf(folder: string): Promise<string> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile());
  const texts = await Promise.all(
    files.map((entry) => readFile(join(entry.parentPath, entry.name), "latin1")),
  );
  return texts.join("\n");
}

it("what agent code writes is stored without the secrets of this process", async () => {
  await using server = await testServer({ agents: [greeter], store: undefined });
  const { service } = server;
  service.get(REDACTOR).addPassing(SECRET);
  const told: string[] = [];
  for (const hook of ["job:changed", "case:opened", "case:changed", "run:entry"] as const) {
    service.get(HOOKS).on(hook, (payload) => void told.push(JSON.stringify(payload)));
  }
  const account = { workspace_id: "dev", api_key: null, api_url: null };

  await workThrough(service, "job-1");
  await service.get(LEDGER).write((unit) =>
    changeJob(unit, "job-1", null, (job) => ({
      ...job,
      result: { [SECRET]: SECRET, base64: Buffer.from(`x:${SECRET}`).toString("base64") },
      error: `failed with ${SECRET}`,
    })),
  );
  await service.get(LEDGER).write(async (unit) => {
    const input = { ref: "leaky", name: SECRET, description: `about ${SECRET}` };
    const { id } = await openCase(unit, "job-1", input, account);
    await updateCase(unit, id, { name: SECRET, payload: { deep: [{ [SECRET]: SECRET }] }, error: SECRET });
    await unit.record("job-1", {
      type: "call",
      call: "step",
      name: `step ${SECRET}`,
      position: 0,
      result: { token: SECRET },
    });
  });

  expect(await service.get(JOBS).get("job-1")).toMatchObject({
    status: "completed",
    error: "failed with [secret]",
  });
  expect((await service.get(CASES).get("leaky")).updates[0]).toMatchObject({ index: 1, name: "[secret]" });
  expect(told.join("\n")).not.toContain(SECRET);
  expect(await textOf(server.dataDir)).not.toContain(SECRET);
});

it("a secret that is an ordinary word changes no status and no field's name", async () => {
  await using server = await testServer({ agents: [greeter] });
  for (const word of ["completed", "in_progress", "updates", "result", "payload"]) {
    server.service.get(REDACTOR).addPassing(word);
  }

  await workThrough(server.service, "job-1");

  expect(await server.service.get(JOBS).get("job-1")).toMatchObject({
    status: "completed",
    result: { ok: true },
  });
  expect((await server.service.get(CASES).get("job-1.c1")).updates).toHaveLength(2);
});
