import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AUDIT, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { main } from "../../src/cli/main.ts";
import { type Checkpoint, makeCheckpoint } from "../../src/core/access/checkpoint.ts";
import { nameOfKey, type SigningPair } from "../../src/core/access/signing-keys.ts";
import { greeter } from "../_setup.ts";
import { startJob, until } from "../runs/_jobs.ts";

/** Runs a command as the program does, in this process. */
async function svc(
  server: TestServer,
  ...argv: string[]
): Promise<{ code: number; out: string; notes: string }> {
  const out: string[] = [];
  const notes: string[] = [];
  const code = await main(argv, {
    argv,
    self: [],
    cwd: server.dataDir,
    env: { SERVICE_URL: server.url, SERVICE_API_KEY: server.key },
    print: (line) => void out.push(line),
    note: (line) => void notes.push(line),
    interactive: false,
    platforms: {},
  });
  return { code, out: out.join("\n"), notes: notes.join("\n") };
}

/** A pair of keys that the service does not know. */
function generateKeys(): SigningPair {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { x = "", y = "" } = privateKey.export({ format: "jwk" });
  return { privateKey, jwk: { kty: "EC", crv: "P-256", x, y, kid: nameOfKey({ x, y }), alg: "ES256" } };
}

async function begin(): Promise<TestServer> {
  const server = await testServer({ agents: [greeter], store: undefined });
  for (const id of ["job-1", "job-2"]) {
    await startJob(server.service, { id, fields: { name: "Ada" } });
    await until(server.service, id);
    await server.request(`/admin/api/jobs/${id}`, { method: "DELETE" });
  }
  return server;
}

it("svc audit list shows the newest lines of a running service, filtered", async () => {
  await using server = await begin();

  const all = await svc(server, "audit", "list");
  const one = await svc(server, "audit", "list", "--target", "job-2", "--json");
  const none = await svc(server, "audit", "list", "--action", "key.changed");
  const wrong = await svc(server, "audit", "list", "--since", "yesterday");

  expect(all.code).toBe(0);
  expect(all.out).toMatch(/2 .*job\.delete .*job job-2 .*api-key .*127\.0\.0\.1[\s\S]*1 .*job job-1/);
  expect(JSON.parse(one.out)).toMatchObject({
    items: [{ n: 2, action: "job.delete" }],
    total: 2,
    next: null,
  });
  expect(none).toMatchObject({ code: 0, out: "No matching entries." });
  expect(wrong.code).toBe(1);
});

it("svc audit export and verify work on a running service, a folder and a file", async () => {
  await using server = await begin();

  const running = await svc(server, "audit", "export");
  const checked = await svc(server, "audit", "verify");
  await server.service.close();
  const folder = await svc(server, "audit", "export", "--data-dir", ".");
  const checkedFolder = await svc(server, "audit", "verify", "--data-dir", ".");
  await writeFile(join(server.dataDir, "audit.jsonl"), `${running.out}\n`);
  const checkedFile = await svc(server, "audit", "verify", "audit.jsonl");

  // The key that signs was made for it.
  const [deleted, deletedToo, made, end] = running.out.split("\n").map((line) => JSON.parse(line) as object);
  expect([deleted, deletedToo, made]).toMatchObject([
    { action: "job.delete" },
    { action: "job.delete" },
    { action: "signing_key.changed" },
  ]);
  expect(end).toMatchObject({ checkpoint: { line: expect.stringMatching(/^3:/) } });
  expect(running.notes).toMatch(/--expect: 3:[\w-]{43}$/);
  expect(folder.out).toBe(running.out.split("\n").slice(0, 3).join("\n"));
  expect(folder.notes).toContain("not signed");
  for (const { code, out } of [checked, checkedFolder, checkedFile]) {
    expect(code).toBe(0);
    expect(out).toMatch(/^3 lines: the hash chain is intact; the newest is 3:[\w-]{43}$/m);
  }
});

it("svc audit verify names a changed or missing line of an export", async () => {
  await using server = await begin();
  const { out } = await svc(server, "audit", "export");
  const file = join(server.dataDir, "audit.jsonl");

  await writeFile(file, out.replace('"job-2"', '"job-9"'));
  const changed = await svc(server, "audit", "verify", "audit.jsonl");
  await writeFile(file, out.split("\n").slice(0, 1).concat("{").join("\n"));
  const broken = await svc(server, "audit", "verify", "audit.jsonl");

  expect(changed).toMatchObject({ code: 1, out: expect.stringContaining("line 2 is not as it was written") });
  expect(broken).toMatchObject({
    code: 1,
    notes: expect.stringContaining("line 2 is not a line of an audit log"),
  });
});

it("svc audit verify --expect finds that lines were cut off", async () => {
  await using server = await begin();
  const { out } = await svc(server, "audit", "export");
  const lines = out.split("\n").filter((line) => line.startsWith('{"n"'));
  const { n, hash } = JSON.parse(lines.at(-1)!) as { n: number; hash: string };
  const file = join(server.dataDir, "audit.jsonl");
  const verify = async (kept: readonly string[], ...more: string[]) => {
    await writeFile(file, kept.join("\n"));
    return svc(server, "audit", "verify", "audit.jsonl", ...more);
  };

  const whole = await verify(lines, "--expect", `${n}:${hash}`);
  const cut = await verify(lines.slice(0, -1), "--expect", `${n}:${hash}`);
  const other = await verify(lines, "--expect", `${n}:${hash.replaceAll(/./g, "A")}`);
  const served = await svc(server, "audit", "verify", "--expect", `${n}:${hash}`);
  const empty = await verify([]);
  const wrong = await verify(lines, "--expect", "34");

  expect([whole, cut, other, served, empty].map(({ code }) => code)).toEqual([0, 1, 1, 0, 1]);
  expect(cut.out).toContain(`line ${n}:${hash} is not in the chain`);
  expect(empty.out).toContain("nothing was checked");
  expect(empty.out).not.toContain("intact");
  expect(wrong.code).toBe(2);
});

it("an export that ends early is not intact, whatever is written at its end", async () => {
  await using server = await begin();
  const { out } = await svc(server, "audit", "export");
  const lines = out.split("\n");
  const [end, ...backwards] = lines.toReversed();
  const entries = backwards.toReversed();
  const file = join(server.dataDir, "audit.jsonl");
  const verify = async (kept: readonly string[], ...more: string[]) => {
    await writeFile(file, kept.join("\n"));
    return svc(server, "audit", "verify", "audit.jsonl", ...more);
  };
  const { checkpoint } = JSON.parse(end!) as { checkpoint: Checkpoint };
  const { hash: one } = JSON.parse(entries[0]!) as { hash: string };
  const forged = JSON.stringify({ checkpoint: { ...checkpoint, line: `1:${one}` } });
  const other = generateKeys();
  const own = JSON.stringify({ checkpoint: makeCheckpoint(other, { line: `1:${one}`, at: checkpoint.at }) });
  const { kid } = checkpoint.key;

  const whole = await verify(lines, "--signed-by", kid);
  const noEnd = await verify(entries);
  const cut = await verify([entries[0]!, end!]);
  const renamed = await verify([entries[0]!, forged]);
  const resigned = await verify([entries[0]!, own], "--signed-by", kid);
  const unsigned = await verify(entries, "--signed-by", kid);
  const longer = await verify([...lines, entries[2]!]);

  expect([whole, noEnd, cut, renamed, resigned, unsigned, longer].map(({ code }) => code)).toEqual([
    ...[0, 1, 1, 1, 1, 1, 1],
  ]);
  expect(noEnd.out).toContain("the end is not known");
  expect(cut.out).toContain("lines were cut off");
  expect(renamed.out).toContain("the signature of line 1");
  expect(resigned.out).toContain(`was signed by the key ${other.jwk.kid}`);
  expect(longer.notes).toContain("comes after the end of the log");
  for (const { out } of [noEnd, cut, renamed, resigned, unsigned]) expect(out).not.toContain("intact");
});

it("a checkpoint that was kept shows that lines were cut off the store, and stays valid for a former key", async () => {
  await using server = await begin();
  const kept = await svc(server, "audit", "checkpoint");
  await writeFile(join(server.dataDir, "kept.json"), kept.out);
  await server.request("/access/signing-keys", { json: {} });
  const before = await svc(server, "audit", "verify", "--checkpoint", "kept.json");

  // As somebody with the folder can do it: the log, and what it has written down of its end.
  const { service } = server;
  const day = new Date().toISOString().slice(0, 10);
  const [first] = await service.get(STORE).log("Audit").read(day, {});
  await service.get(STORE).transaction(async (tx) => {
    await tx.clear("Audit", day);
    await tx.append("Audit", day, first!.entry);
    const { n, hash } = first!.entry;
    await tx.change("AuditHead", "head", (head) => ({ ...head, last: { n, hash } }));
  });
  const after = await svc(server, "audit", "verify", "--checkpoint", "kept.json");

  expect(before.code).toBe(0);
  expect(after).toMatchObject({ code: 1, out: expect.stringContaining("is not in the chain") });
});

it("the API follows the chain, and names the first line that does not fit or is missing", async () => {
  await using server = await begin();
  const check = async () => (await server.request("/admin/api/audit/verify")).json();
  const whole = await check();

  const day = new Date().toISOString().slice(0, 10);
  const { service } = server;
  const [first] = await service.get(STORE).log("Audit").read(day, {});
  await service.get(STORE).transaction(async (tx) => {
    await tx.clear("Audit", day);
    await tx.append("Audit", day, first!.entry);
  });
  const cut = await check();
  await service.get(STORE).transaction((tx) => tx.clear("Audit", day));
  const empty = await check();

  expect(whole).toEqual({ lines: 2, newest: expect.stringMatching(/^2:/), problem: null });
  expect(cut).toMatchObject({ lines: 1, problem: "lines after 1 are missing" });
  expect(empty).toMatchObject({ lines: 0, problem: expect.stringContaining("missing") });
});

it("the API returns pages of the audit log, and refuses unknown filters", async () => {
  await using server = await begin();

  const first = (await (await server.request("/admin/api/audit?limit=1")).json()) as Record<string, unknown>;
  const second = await (await server.request(`/admin/api/audit?limit=1&before=${first.next}`)).json();
  const misspelled = await server.request("/admin/api/audit?actions=job.delete");
  const wrong = await server.request("/admin/api/audit?action=job.destroy");

  expect(first).toMatchObject({ items: [{ n: 2 }], next: 2, total: 2 });
  expect(second).toMatchObject({ items: [{ n: 1 }], next: null, total: 2 });
  expect([misspelled.status, wrong.status]).toEqual([422, 422]);
});

it("the page shows names and targets as text", async () => {
  await using server = await begin();
  const by = { kind: "session", session: "abc123", says: '<img src=x onerror="alert(1)">' } as const;
  await server.service
    .get(AUDIT)
    .record({ by, action: "job.stop", target: { kind: "job", id: "<b>job</b>" } });

  const response = await server.request("/admin/audit?who=img", { headers: { accept: "text/html" } });
  const page = await response.text();

  expect(response.status).toBe(200);
  expect(page).toContain("session abc123, says &quot;&lt;img src=x");
  expect(page).not.toContain("<img src=x");
  expect(page).not.toContain("<b>job</b>");
});

it("svc store prune lists what it would remove from a folder or a running service, and removes it from a folder", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "prune-"));
  try {
    const old = new Date(Date.now() - 40 * 24 * 3_600_000);
    const server = await testServer({ agents: [greeter], store: undefined, dataDir, clock: () => old });
    for (const id of ["job-1", "job-2"]) {
      await startJob(server.service, { id, fields: { name: "Ada" } });
      await until(server.service, id);
    }
    const running = await svc(server, "store", "prune", "--dry-run", "--url", server.url);
    const refused = await svc(server, "store", "prune", "--url", server.url);
    await server.service.close();

    const unsaid = await svc(server, "store", "prune", "--data-dir", ".");
    const kept = await svc(server, "store", "prune", "--dry-run", "--completed", "50d", "--data-dir", ".");
    const dry = await svc(server, "store", "prune", "--dry-run", "--completed", "30d", "--data-dir", ".");
    const other = await svc(
      server,
      "store",
      "prune",
      "--completed",
      "30d",
      "--agent",
      "x",
      "--data-dir",
      ".",
    );
    const done = await svc(server, "store", "prune", "--completed", "30d", "--data-dir", ".");
    const again = await svc(server, "store", "prune", "--completed", "30d", "--json", "--data-dir", ".");
    const recorded = await svc(server, "audit", "export", "--data-dir", ".");

    expect(running).toEqual({ code: 0, out: "0 jobs would be removed", notes: "" });
    expect([refused.code, unsaid.code]).toEqual([2, 2]);
    expect(kept.out).toBe("0 jobs would be removed");
    expect(dry.out).toMatch(
      new RegExp(`greeter +completed +2 +${old.toISOString().slice(0, 10)}[\\s\\S]*2 jobs would be removed`),
    );
    expect(other.out).toBe("0 jobs removed");
    expect(done.out).toMatch(/2 jobs removed$/);
    expect(JSON.parse(again.out)).toEqual({ jobs: 0, due: [], removed: true });
    expect(JSON.parse(recorded.out)).toMatchObject({
      action: "retention.remove",
      who: { kind: "system", says: "svc store prune" },
      after: { status: "completed", jobs: 2 },
    });
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});
