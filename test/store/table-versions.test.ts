import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { createStoreTables } from "../../src/core/store/engine/transactional-store.ts";
import { openBackend } from "../../src/core/store/json/json-backend.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { nodeTimers } from "../../src/core/store/json/timers.ts";
import type { Entity, TableSpec } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { readSources } from "../_sources.ts";

/** What each version of each table makes of the samples. */
const FIXTURE = join(import.meta.dirname, "table-indexes.json");
type Fixture = Record<string, Record<string, unknown[]>>;

const asked = { name: "approve", deadline: "2026-03-01T12:00:00.5Z" };
/** Entities with everything that an index reads; other tables index nothing. */
const SAMPLES: Readonly<Record<string, readonly object[]>> = {
  Job: [
    makeJob("job-1", { name: "Audit Ä" }),
    makeJob("job-2", {
      status: "completed",
      agent_name: "clerk",
      idempotency_key: "key-1",
      schedule: { id: "nightly", at: "2026-01-31T09:30:00.000Z" },
      created_at: "2026-01-31T10:30:00+01:00",
      updated_at: "2026-01-31T09:31:00.123456Z",
      finished_at: "2026-01-31T09:31:00Z",
      case_count: 3,
      total_cost: 0.25,
      run_count: 2,
      owner: "instance-1",
    }),
    makeJob("job-5", {
      status: "failed",
      error: "connect ECONNREFUSED 10.0.0.12:443\nat send",
      stop_reason: "error",
    }),
    makeJob("job-3", { suspended: { at: "2026-01-31T09:31:00Z", wake_at: "2026-02-28T23:59:59.999Z" } }),
    makeJob("job-4", { suspended: { at: "2026-01-31T09:31:00Z", wake_at: null } }),
  ],
  Case: [
    makeCase("case-1", "job-1", { name: "One", description: "The first" }),
    makeCase("case-2", "job-1", { status: "awaiting", question: asked as never, total_cost: 2 }),
    makeCase("case-4", "job-1", {
      status: "awaiting",
      question: {
        ...{ name: "approve", assigned_to: "lead", remind_at: "2026-03-01T10:00:00Z" },
        ...{ reminded_at: "2026-03-01T10:00:01Z", escalate: { at: "2026-03-02T10:00:00Z", to: "boss" } },
      } as never,
    }),
    makeCase("case-3", "job-2", { status: "failed", finished_at: "2026-02-28T23:59:59.999Z" }),
  ],
  DeletedJob: [
    makeJob("job-1", { finished_at: "2026-01-31T09:31:00Z", deleted_at: "2026-01-31T09:32:00Z" } as object),
  ],
  DeletedCase: [makeCase("case-1", "job-1")],
  Spending: [{ id: "clerk/2026-01/3", agent: "clerk", days: { "2026-01-31": 2 } }],
  WorkspaceSpending: [{ id: "0f/2026-01/3", workspace: "acme", month: "2026-01", days: { "2026-01-31": 2 } }],
  KeyedRequest: [{ id: "request-1", job_id: "job-1", at: "2026-01-31T09:30:00.500Z", content: "", after: 3 }],
  ShownQuestion: [{ id: "shown-1", job_id: "job-1" }],
  ReceivedEvent: [
    {
      id: "payment/p-1",
      name: "payment",
      event_id: "p-1",
      n: 3,
      created_at: "2026-01-31T09:30:00.500Z",
      data: {},
    },
  ],
  EventWait: [
    { id: "job-1/0/2", job_id: "job-1", position: 2, shape: "payment/[]", match: "payment", event: null },
    {
      id: "job-1/0/3",
      job_id: "job-1",
      position: 3,
      shape: "payment/[]",
      match: "payment",
      event: "payment/p-1",
    },
  ],
  Instance: [{ id: "instance-1", seen_at: "2026-01-31T09:30:00.500Z" }],
  Probe: [{ id: "probe-1", created_at: "2026-01-31T09:30:00.500Z", run_count: 2 }],
  ModelUse: [{ id: "agent/small/2026-01-31", agent: "agent", model: "small", day: "2026-01-31" }],
  Access: [{ id: "access-1", name: "reporting" }],
  FileContent: [{ id: "0f", place: "aa" }],
  FileUpload: [
    { id: "upload-1", place: "aa", sha256: null, touched_at: "2026-01-31T09:30:00.500Z", access: "access-1" },
    {
      ...{ id: "upload-2", place: "bb", sha256: "0f", touched_at: "2026-01-31T09:30:00.500Z" },
      ...{ access: "access-1", used: true },
    },
  ],
  JobFile: [
    {
      ...{ id: "0f.job-1", job_id: "job-1", workspace: "local", sha256: "0f" },
      ...{
        created_at: "2026-01-31T09:30:00.500Z",
        names: [{ name: "a.pdf", type: "application/pdf", origin: "field" }],
      },
    },
    {
      ...{
        id: "1f.job-1",
        job_id: "job-1",
        workspace: "acme",
        agent_name: "clerk",
        access: "key-1",
        sha256: "1f",
      },
      created_at: "2026-01-31T09:30:00.500Z",
      names: [
        { name: "b.md", type: "text/plain", origin: "step" },
        { name: "b.md", type: "text/markdown", origin: "step", artifact: "report", title: "Findings" },
      ],
    },
  ],
  JobResult: [{ id: "0f.job-1", job_id: "job-1", sha256: "0f" }],
  Revocation: [{ id: "0f", mark: 1_800_000_000_000, until: 1_800_000_000_000 }],
  FileRemoval: [{ id: "aa", due_at: "2026-01-31T10:30:00.500Z" }],
  A2aPush: [{ id: "push-1", job_id: "job-1" }],
  A2aMessage: [{ id: "message-1", job_id: "job-1", question: "approve" }],
  AdminSession: [{ id: "session-1", until: 1_800_000_000_000 }],
  AnswerLink: [{ id: "link-1", case_id: "case-1", until: 1_800_000_000_000 }],
  BulkOperation: [{ id: "bulk-1", createdAt: "2026-01-31T09:30:00.000Z" }],
  JobLog: [{ id: "job-1/00000002", job_id: "job-1", part: 2, lines: [] }],
  SignInLink: [{ id: "link-1", until: 1_800_000_000_000 }],
  Outbox: [
    { id: "0000019bdf3a7e80-1", target: "account", stream: "job-1", state: "waiting" },
    { id: "0000019bdf3a7e81-2", target: "account", stream: "job-1", state: "failed" },
  ],
};

/** Every table that the sources declare, found by its type. */
async function tablesOfSources(): Promise<TableSpec[]> {
  const tables: TableSpec[] = [...CORE_TABLES];
  for (const { path, text } of readSources("src")) {
    for (const [, name] of text.matchAll(/^export const (\w+): TableSpec</gm)) {
      const module = (await import(join(import.meta.dirname, "../..", path))) as Record<string, TableSpec>;
      tables.push(module[name!]!);
    }
  }
  return tables;
}

function indexesOf({ name, index, text }: TableSpec): unknown[] {
  const samples = (SAMPLES[name] ?? [{ id: "any" }]) as readonly Entity[];
  return samples.map((sample) => ({ values: index(sample), text: text?.(sample) ?? "" }));
}

describe("the version of a table", () => {
  it("is raised with every change of its index values", async () => {
    const fixture = JSON.parse(readFileSync(FIXTURE, "utf8")) as Fixture;
    const tables = await tablesOfSources();
    const problems: string[] = [];
    for (const table of tables) {
      const indexes = indexesOf(table);
      fixture[table.name] ??= {};
      const versions = fixture[table.name]!;
      const known = versions[table.version];
      // An existing version is never overwritten: its values are in users' files.
      if (known === undefined && process.env.SVC_WRITE_INDEXES) versions[table.version] = indexes;
      else if (known === undefined)
        problems.push(`${table.name} ${table.version}: new, run this test with SVC_WRITE_INDEXES=1`);
      else if (JSON.stringify(known) !== JSON.stringify(indexes))
        problems.push(`${table.name}: the index gives other values; raise version ${table.version}`);
    }
    if (process.env.SVC_WRITE_INDEXES) writeFileSync(FIXTURE, `${JSON.stringify(fixture, null, 2)}\n`);

    expect(problems).toEqual([]);
    expect(tables.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["Job", "Case", "Outbox", "AdminSession"]),
    );
    for (const { name, index } of tables) {
      if (Object.keys(index({ id: "any", ...SAMPLES[name]?.[0] } as Entity)).length > 0)
        expect(SAMPLES, `samples of ${name}`).toHaveProperty(name);
    }
  });

  it("must be a whole number of at least 1", () => {
    const spec = { name: "Note", entity: false, index: () => ({}), facets: [], sorted: [] };

    for (const version of [undefined, 0, 1.5, "1"])
      expect(() => createStoreTables([{ ...spec, version: version as number }])).toThrow(
        'Table "Note" needs a version: a whole number of at least 1',
      );
  });
});

describe("stored index values", () => {
  /** A table whose index calls a function, as that of a plugin may. */
  const notes = (kind: string, version: number): TableSpec => {
    const kindOf = () => kind;
    return {
      name: "Note",
      version,
      entity: true,
      index: () => ({ kind: kindOf() }),
      facets: ["kind"],
      sorted: [],
    };
  };
  const open = (dataDir: string, tables: readonly TableSpec[]) =>
    openJsonStoreWith({ tables, dataDir, log: { info() {}, warn() {}, error() {} } });

  it("are recomputed from the entities by another version", async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "table-versions-"));
    try {
      const before = await open(dataDir, [notes("a", 1)]);
      await before.table("Note" as never).insert({ id: "n" } as never);
      await before.close();

      const after = await open(dataDir, [notes("b", 2)]);

      const table = after.table("Note" as never);
      expect(await table.countBy("kind")).toEqual({ b: 1 });
      expect(await table.ids({ where: { kind: "b" } })).toEqual(["n"]);
      await after.close();
    } finally {
      rmSync(dataDir, { recursive: true });
    }
  });

  it("of version 0.1.0, which named them by a checksum of the source, are rewritten once", async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "table-versions-"));
    try {
      cpSync(join(import.meta.dirname, "data-0.1.0/stopped"), dataDir, { recursive: true });
      const log = { info() {}, warn() {}, error() {} };
      let parsed = 0;
      const counting = CORE_TABLES.map((spec) => ({
        ...spec,
        index: (entity: Entity) => {
          parsed++;
          return spec.index(entity);
        },
      }));
      const openOnce = () =>
        openBackend(createStoreTables(counting), {
          folder: dataDir,
          log,
          io: nodeIo,
          timers: nodeTimers,
          journalBytes: 1 << 20,
          reserveBytes: 64,
          headroom: { bytes: 64, after: 1000 },
          lock: true,
        });
      const first = await openOnce();
      expect(parsed).toBeGreaterThan(0);
      await first.compact();
      await first.close();
      parsed = 0;

      await (await openOnce()).close();

      expect(parsed).toBe(0);
      const jobs = readdirSync(dataDir).filter((name) => name.startsWith("Job."));
      expect(readFileSync(join(dataDir, jobs[0]!), "utf8")).toContain(
        `"v":"${CORE_TABLES[0]!.version}","x":"job-1\\naudit 2"`,
      );
    } finally {
      rmSync(dataDir, { recursive: true });
    }
  });
});
