import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AgentDefinition, defineAgent, type FileValue, file } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, expect, test } from "vitest";
import { jobContext, until } from "./_jobs.ts";

/** Handlers that an agent in the service's process and an isolated one have, chosen by a field. */
const MODULE = `
import { setTimeout as pause } from "node:timers/promises";
const LARGE = 3_000_000;
const FOREIGN = { name: "x", type: "text/plain", size: 1, sha256: "0".repeat(64) };
const failure = (call) => Promise.resolve().then(call).then(() => "none", (error) => error.name + ": " + error.message);
async function* parts() {
  for (let n = 0; n < 3; n++) { await pause(1); yield new Uint8Array(LARGE / 3).fill(n + 65); }
}
const handlers = {
  reads: async ({ job, contract }) => {
    const text = await job.step("text", () => job.open(contract).text());
    const more = await job.step("more", async ({ attempt }) => {
      const opened = job.open(contract);
      const [bytes, blob] = [await opened.bytes(), await opened.blob()];
      const reader = opened.stream().getReader();
      const first = await reader.read();
      await reader.cancel();
      return { attempt, bytes: bytes.length, blob: [blob.type, blob.size], first: first.value.length > 0, name: opened.name };
    });
    const outside = await job.open(contract).text();
    return job.step("outside", () => [text.length, more, outside === text]);
  },
  makes: async ({ job, path }) => {
    const made = await job.step("makes", async ({ file }) => {
      const text = await file("a.txt", "words");
      const all = await Promise.all([file("b.bin", new Uint8Array(LARGE)), file("c.bin", parts()), file("d.txt", new Blob(["blob"])), file("e.csv", { path }, { type: "text/csv" })]);
      return { all: [text, ...all], again: await job.open(text).text(), empty: await file("empty.txt", "") };
    });
    const own = await job.file("own.md", "# own");
    const item = await job.openCase({ id: job.id + "-case", name: "Report" });
    await item.artifact("report", own, { title: "Report" });
    await job.artifact("data", made.all[2]);
    const read = await job.step("read", async () => (await job.open(made.all[2]).text()).length);
    await item.close({ own });
    return { made, own, read };
  },
  refuses: async ({ job }) => {
    let late;
    const results = await job.step("refuses", async ({ file }) => {
      late = file;
      return [
        await failure(() => job.open(FOREIGN).text()),
        await failure(() => job.open({ name: "x" })),
        await failure(() => file("", "x")),
        await failure(() => file("x.txt", 7)),
        await failure(() => file("x.txt", { path: "/no/such/file" })),
        await failure(() => file("x.pdf", "no pdf", { type: "application/pdf" })),
      ];
    });
    return [...results, await failure(() => late("late.txt", "late"))];
  },
};

export const worker = {
  name: "Apart",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "kind", field_type: "CharField" }, { name: "contract", field_type: "FileField", required: false }, { name: "path", field_type: "CharField", required: false }],
      run: ({ job, fields }) => handlers[fields.kind]({ job, ...fields }),
    },
  },
};

export const crasher = {
  name: "Crasher",
  version: "1.0.0",
  methods: {
    job_start: {
      run: ({ job }) => job.step("crashes", async ({ file, attempt }) => {
        async function* source() { yield new Uint8Array(5_000_000); if (attempt === 1) process.exit(3); }
        return file("a.bin", source());
      }, { retries: 1, backoff: { initial: "1ms" } }),
    },
  },
};
`;

let folder: string;
let server: TestServer;
let contract: { readonly upload: string };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "isolated-files-"));
  const module = join(folder, "agent.mjs");
  await writeFile(module, MODULE);
  await writeFile(join(folder, "table.csv"), "a,b\n1,2\n");
  const { worker, crasher } = (await import(module)) as Record<"worker" | "crasher", AgentDefinition>;
  const isolate = { module, permissions: { read: ["/no/such/file"] } };
  server = await testServer({
    agents: [{ ...worker, name: "Here" }, { ...worker, isolate }, { ...crasher, isolate }, parent],
  });
  const sent = await server.request("/files?name=contract.txt", {
    method: "POST",
    body: "the contract ".repeat(100_000) as never,
  });
  contract = (await sent.json()) as typeof contract;
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const parent = defineAgent({
  name: "Parent",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ contract: file() }),
      run: async ({ job, fields }) => {
        const child = await job.start<FileValue>("apart", { kind: "makes", path: join(folder, "table.csv") });
        const made = (await child.result()) as unknown as { own: FileValue };
        const reader = await job.start<unknown>("apart", { kind: "reads", contract: fields.contract });
        await reader.result();
        return job.step("read", () => job.open(made.own).text());
      },
    },
  },
});

async function run(agent: string, kind: string): Promise<unknown> {
  const id = `${agent}-${kind}`;
  const path = join(folder, "table.csv");
  await server.service.ready();
  await server.service.get(RUNNER).start(agent, {
    ...{ job_context: jobContext(id), job_fields: kind === "reads" ? { kind, contract } : { kind, path } },
  });
  const { status, result, error } = await until(server.service, id);
  const entries = (await server.service.get(JOBS).log(id)).map(({ entry }) => {
    // Whether contents that are read outside of steps come within a turn depends on where they are.
    const { at, started_at, code, outside, ...rest } = entry as unknown as Record<string, unknown>;
    return rest;
  });
  const files = (await (await server.request(`/jobs/${id}/files`)).json()) as Record<string, unknown>[];
  const listed = files.map(({ created_at, case_id, ...rest }) => ({ ...rest, ofCase: case_id !== null }));
  return JSON.parse(JSON.stringify({ status, result, error, entries, listed }).replaceAll(agent, "agent"));
}

test.each(["reads", "makes", "refuses"])(
  "an isolated agent has the same files as one in the service's process: %s",
  async (kind) => {
    const [here, apart] = [await run("here", kind), await run("apart", kind)];
    expect(here).toMatchObject({ status: "completed" });
    expect(apart).toEqual(here);
  },
);

test("files pass between an isolated agent and one that is not", async () => {
  const id = "parent-1";
  await server.service.get(RUNNER).start("parent", { job_context: jobContext(id), job_fields: { contract } });
  expect(await until(server.service, id)).toMatchObject({ status: "completed", result: "# own" });
});

test("a process that ends while it makes a file fails that try, and the next one makes it", async () => {
  const id = "crasher-1";
  await server.service.get(RUNNER).start("crasher", { job_context: jobContext(id), job_fields: {} });
  const { status, result } = await until(server.service, id);
  expect(status).toBe("completed");
  const { sha256 } = result as unknown as FileValue;
  expect(sha256).toBe(createHash("sha256").update(Buffer.alloc(5_000_000)).digest("hex"));
  expect((await (await server.request(`/jobs/${id}/files/${sha256}`)).arrayBuffer()).byteLength).toBe(5e6);
});
