// @long
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Job } from "../../src/core/models/job.ts";
import { access, beginSvc, PROCESS_TIME, project, svc } from "./_svc.ts";

const SECRET = "s3cret-token-of-the-test";

/** Pays what it has fetched, after a question; its steps leave lines in a file, and its handler uses the network. */
const controller = (step: string) => `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
const did = (what) => appendFileSync(new URL("../did.txt", import.meta.url), what + "\\n");
const payer = defineAgent({
  name: "Payer",
  version: "1.0.0",
  parameters: [{ name: "TOKEN", is_required: true, is_environment: true }],
  methods: {
    job_start: {
      fields: [{ name: "note" }, { name: "total", field_type: "IntegerField", default: 1 }],
      async run({ job, fields, parameters }) {
        await fetch("http://127.0.0.1:9/").catch(() => {});
        const item = await job.openCase({ id: "invoice", name: "Invoice" });
        const seen = await item.step("${step}", () => { did("${step}"); return { token: parameters.TOKEN, total: fields.total }; });
        await item.step("log in with " + parameters.TOKEN, () => did("log in"));
        await item.update({ name: "found", payload: { seen } });
        const { ok } = await item.ask("approve", { question: "Pay it?", fields: [{ name: "ok", required: true }] });
        await item.step("pay", () => did("pay " + ok));
        await item.close({ ok });
        return { total: seen.total };
      },
    },
  },
});
export default createServer({ agents: [payer], host: "127.0.0.1", port: 0 });
`;

async function begin(cwd: string, env: Record<string, string> = {}) {
  const running = beginSvc(["start"], { cwd, env });
  await running.prints(/Press Ctrl-C to stop/);
  return running;
}

async function stop(running: ReturnType<typeof beginSvc>) {
  running.process.kill("SIGTERM");
  await running.finished;
}

/** A service with a job that waits for its answer, and a folder to pull it into. */
async function worlds() {
  const there = await project({ "src/controller.ts": controller("fetch") });
  const here = await project({ "src/controller.ts": controller("fetch"), "did.txt": "" });
  const remote = await begin(there);
  const env = { TOKEN: SECRET };
  const start = [
    "job",
    "start",
    "payer",
    "--id",
    "one",
    "--field",
    `note=with ${SECRET}`,
    "--param",
    "TOKEN",
  ];
  await svc(start, { cwd: there, env });
  await remote.prints(/./);
  for (;;) {
    const { stdout } = await svc(["job", "show", "one", "--json"], { cwd: there });
    if ((JSON.parse(stdout) as Job).status === "awaiting") break;
  }
  const { url, key } = await access(there);
  const pull = (...more: string[]) => svc(["job", "pull", url, "one", "--key", key, ...more], { cwd: here });
  const did = () => readFile(join(here, "did.txt"), "utf8");
  return { there, here, remote, url, key, pull, did };
}

async function files(folder: string): Promise<string> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".jsonl"));
  return (await Promise.all(names.map((name) => readFile(join(folder, name), "latin1")))).join("");
}

describe("svc job pull and replay", { timeout: PROCESS_TIME }, () => {
  it("bring a job home without secrets, and say where its record ends or does not fit, without side effects", async () => {
    const { there, here, pull, did } = await worlds();

    const pulled = await pull();
    expect(pulled, pulled.stderr).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("Job one (awaiting) is in"),
    });
    const stored = await files(join(here, "data"));
    const replayed = await svc(["job", "replay", "one"], { cwd: here });
    const json = await svc(["job", "replay", "one", "--json"], { cwd: here });
    await writeFile(join(here, "src/controller.ts"), controller("load"));
    const changed = await svc(["job", "replay", "one", "--json"], { cwd: here });
    const unknown = await svc(["job", "replay", "two"], { cwd: here });
    const audit = await svc(["audit", "list", "--action", "job.export", "--json"], { cwd: there });

    expect(stored).toContain("[secret]");
    expect(stored).not.toContain(SECRET);
    expect(stored).not.toContain(Buffer.from(SECRET).toString("base64").slice(0, 20));
    expect(stored).not.toMatch(/"encrypted_agent_parameters":"/);
    expect(replayed, replayed.stderr).toMatchObject({ code: 0 });
    expect(replayed.stdout).toContain('ask "approve" of case "invoice"');
    expect(replayed.stdout).toMatch(/In a debugger: \S*node\S* --inspect-brk \S+cli\.js job replay one/);
    expect(JSON.parse(json.stdout)).toMatchObject({
      verdict: "fits",
      next: ['ask "approve" of case "invoice"'],
    });
    expect(changed.code).toBe(1);
    expect(JSON.parse(changed.stdout)).toMatchObject({
      ...{
        verdict: "mismatch",
        expected: 'step "fetch" of case "invoice"',
        found: 'step "load" of case "invoice"',
      },
    });
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining("There is no job two") });
    expect(await did()).toBe("");
    expect(audit.stdout).toContain("job.export");
  });

  it("a pulled job never runs here, whatever is done with it; a fork of it does", async () => {
    const { here, remote, pull, did } = await worlds();
    await pull();
    await stop(remote);
    const env = { TOKEN: "another token" };

    let local = await begin(here, env);
    const held = JSON.parse((await svc(["job", "show", "one", "--json"], { cwd: here })).stdout) as Job;
    const tried = [];
    for (const args of [
      ["retry", "one"],
      ["retry", "one", "--from-start"],
      ["continue", "one"],
      ["move", "one", "--to", "1.0.0"],
    ])
      tried.push((await svc(["job", ...args], { cwd: here })).stderr);
    const { url, key } = await access(here);
    const request = (path: string, body: object) =>
      fetch(url + path, {
        method: "POST",
        headers: { "x-api-key": key, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    const statuses = [];
    for (const status of ["in_progress", "stopped", "awaiting", "cancelling"])
      statuses.push((await request("/admin/api/jobs/one/status", { status })).status);
    const answered = await svc(["job", "answer", "one", "--field", "ok=yes"], { cwd: here });
    await stop(local);
    local = await begin(here, env);
    const after = JSON.parse((await svc(["job", "show", "one", "--json"], { cwd: here })).stdout) as Job;
    const before = await did();
    const forked = await svc(["job", "fork", "one", "--from", "end", "--id", "two", "--wait"], { cwd: here });

    expect(held).toMatchObject({
      ...{ status: "awaiting", stop_reason: "pulled", agent_parameters: [{ name: "TOKEN" }] },
      pulled_from: { status: "awaiting" },
      job_fields: { note: "with [secret]", total: 1 },
    });
    for (const text of tried) expect(text).toContain("it does not run here");
    expect(statuses).toEqual([409, 409, 409, 409]);
    expect(answered, answered.stderr).toMatchObject({ code: 0 });
    expect(after).toMatchObject({ status: "awaiting", stop_reason: "pulled" });
    expect(before).toBe("");
    expect(forked, forked.stderr + forked.stdout).toMatchObject({ code: 0 });
    expect(await did()).toBe("pay yes\n");
  });

  it("pulling is refused into a folder in use or with another job of that id, and again it updates the copy", async () => {
    const { there, here, pull } = await worlds();
    const first = await pull();
    const stored = async () =>
      JSON.parse((await svc(["job", "replay", "one", "--json"], { cwd: here })).stdout) as object;
    const one = await stored();
    const again = await pull();
    const same = await stored();
    await svc(["job", "answer", "one", "--field", "ok=yes"], { cwd: there });
    await svc(["job", "watch", "one"], { cwd: there });
    const newer = await pull("--json");
    const done = await stored();
    const local = await begin(here);
    const busy = await pull();
    await stop(local);

    const other = await project({ "src/controller.ts": controller("fetch") });
    const running = await begin(other);
    await svc(["job", "start", "payer", "--id", "one", "--param", "TOKEN"], {
      cwd: other,
      env: { TOKEN: "x".repeat(9) },
    });
    await stop(running);
    const before = await files(join(other, "data"));
    const taken = await pull("--data", join(other, "data"));

    expect([first.code, again.code, newer.code]).toEqual([0, 0, 0]);
    expect(same).toEqual(one);
    expect(done).toMatchObject({ verdict: "fits", next: [], result: { total: 1 } });
    expect(busy).toMatchObject({ code: 1, stderr: expect.stringContaining("is in use") });
    expect(taken).toMatchObject({ code: 1, stderr: expect.stringContaining("has another job one") });
    expect(await files(join(other, "data"))).toContain(before.slice(0, 200));
    expect(await files(join(other, "data"))).not.toContain('pulled_from":{');
  });
});
