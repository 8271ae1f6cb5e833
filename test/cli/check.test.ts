// @long
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { access, beginSvc, PROCESS_TIME, project, svc } from "./_svc.ts";

/** An agent that fetches, then waits for an answer; its steps leave a line in a file, and its handler asks the network. */
const controller = (step: string, version: string) => `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
const done = (name) => appendFileSync(new URL("../done.txt", import.meta.url), name + "\\n");
const agent = defineAgent({
  name: "Payer",
  version: "${version}",
  parameters: [{ name: "TOKEN", is_required: true, is_environment: true }],
  methods: {
    job_start: {
      async run({ job, parameters }) {
        if (!parameters.TOKEN) throw new Error("no token");
        await fetch("http://127.0.0.1:9/").catch(() => {});
        const item = await job.openCase({ id: job.id, name: "a" });
        await item.step("${step}", () => done("${step}"));
        await item.ask("pay", { question: "Pay it?", fields: [] });
        await item.step("pay", () => done("pay"));
        return "${version}";
      },
    },
  },
});
export default createServer({ agents: [agent], host: "127.0.0.1", port: 0 });
`;

/** Agents by name, with the code between their case and their end. */
const several = (codes: Record<string, string>, version: string) => `
import { createServer, defineAgent } from "agent-control-service";
const agent = (name, run) => defineAgent({ name, version: "${version}", methods: { job_start: { async run({ job }) {
  const item = await job.openCase({ id: job.id, name: "a" });
  const step = (called) => item.step(called, () => called);
  await run({ item, step, ask: () => item.ask("pay", { question: "Pay it?", fields: [] }) });
} } } });
export default createServer({ port: 0, agents: [
${Object.entries(codes)
  .map(([name, code]) => `  agent("${name}", async ({ step, ask }) => { ${code} }),`)
  .join("\n")}
] });
`;
const BEFORE = 'await step("read"); await step("check"); await ask(); await step("book");';

async function contents(folder: string): Promise<Record<string, string>> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".jsonl"));
  return Object.fromEntries(
    await Promise.all(
      names.map(async (name) => [name, await readFile(join(folder, name), "latin1")] as const),
    ),
  );
}

describe("svc check", { timeout: PROCESS_TIME }, () => {
  it("finds the service and its key wherever other commands do, and a folder in a variable", async () => {
    const cwd = await project({ "src/controller.ts": controller("fetch", "1.0.0") });
    const env = { TOKEN: "t" };
    const service = beginSvc(["start"], { cwd, env });
    await service.prints(/Press Ctrl-C to stop/);
    await svc(["job", "start", "payer", "--id", "one"], { cwd });
    const { url, key } = await access(cwd);
    // Its own data folder has no key.
    const other = await project({
      "src/controller.ts": controller("load", "2.0.0"),
      "secrets/SERVICE_API_KEY": key,
    });
    const ways: [string[], Record<string, string>][] = [
      [["--url", url, "--key", key], {}],
      [["--url", url], { SERVICE_API_KEY: key }],
      [[], { SERVICE_URL: url, SERVICE_API_KEY: key }],
      [["--url", url], { SERVICE_SECRETS_DIR: "secrets" }],
      [["--url", url], { SERVICE_DATA_DIR: join(cwd, "data") }],
    ];

    const found = await Promise.all(
      ways.map(([args, more]) => svc(["check", "--json", ...args], { cwd: other, env: { ...env, ...more } })),
    );
    const rejected = await svc(["check", "--url", url, "--json"], {
      ...{ cwd: other, env: { ...env, SERVICE_API_KEY: "another-key-of-32-characters-000" } },
    });
    service.process.kill("SIGTERM");
    await service.finished;
    const folder = await svc(["check", "--json"], {
      ...{ cwd: other, env: { ...env, SERVICE_DATA_DIR: join(cwd, "data") } },
    });

    for (const one of [...found, folder]) {
      expect(one, one.stderr).toMatchObject({ code: 1 });
      expect(JSON.parse(one.stdout)).toMatchObject({ jobs: 1, problems: [{ id: "one", verdict: "held" }] });
    }
    expect(rejected).toMatchObject({ code: 1, stderr: expect.stringContaining("API key") });
  });

  it("judges each job to its end, also beside ones whose code lost a step, hangs or ends the process", async () => {
    const after: Record<string, string> = {
      lost: 'await step("read"); await ask(); await step("book");',
      renamed: 'await step("read"); await step("verify"); await ask();',
      hanging: 'await step("read"); await new Promise(() => {});',
      ending: 'await step("read"); process.exit(0);',
    };
    const names = Object.keys(after);
    const before = Object.fromEntries(names.map((name) => [name, BEFORE]));
    const cwd = await project({ "src/controller.ts": several(before, "1.0.0") });
    const service = beginSvc(["start"], { cwd });
    await service.prints(/Press Ctrl-C to stop/);
    for (const name of names) await svc(["job", "start", name, "--id", name], { cwd });
    service.process.kill("SIGTERM");
    await service.finished;

    const check = async (changed: readonly string[]) => {
      const codes = names.map((name) => [name, changed.includes(name) ? after[name]! : BEFORE]);
      await writeFile(join(cwd, "src/controller.ts"), several(Object.fromEntries(codes), "2.0.0"));
      return svc(["check", "--data", "data", "--json"], { cwd });
    };
    const all = await check(names);
    const replays = await Promise.all(names.map((name) => svc(["job", "replay", name], { cwd })));
    const unsure = await check(["lost", "hanging"]);
    const lost = await check(["lost"]);

    expect(all, all.stderr).toMatchObject({ code: 1 });
    expect(JSON.parse(all.stdout)).toMatchObject({
      ...{ jobs: 4, fit: 1, skipping: [{ id: "lost", skipped: ['step "check" of case "lost"'] }] },
      problems: [
        { id: "renamed", verdict: "held", found: 'step "verify" of case "renamed"' },
        { id: "ending", verdict: "held", message: expect.stringContaining("ends the process") },
      ],
      unsure: [{ id: "hanging", message: expect.stringContaining('has not made step "check"') }],
    });
    expect(replays.map(({ code }) => code)).toEqual([0, 1, 3, 1]);
    expect(unsure).toMatchObject({ code: 3 });
    expect(JSON.parse(unsure.stdout)).toMatchObject({ fit: 3, problems: [], unsure: [{ id: "hanging" }] });
    expect(lost).toMatchObject({ code: 0 });
  });

  it("names the open jobs that do not fit new code, of a running service and of a folder, without changes", async () => {
    const cwd = await project({ "src/controller.ts": controller("fetch", "1.0.0") });
    const env = { TOKEN: "t" };
    const first = beginSvc(["start"], { cwd, env });
    await first.prints(/Press Ctrl-C to stop/);
    for (const id of ["one", "two"]) await svc(["job", "start", "payer", "--id", id], { cwd });
    const { url, key } = await access(cwd);
    const same = await svc(["check", "--url", url, "--key", key], { cwd });
    await writeFile(join(cwd, "src/controller.ts"), controller("load", "2.0.0"));

    const remote = await svc(["check", "--url", url, "--key", key, "--json"], { cwd });
    first.process.kill("SIGKILL");
    await first.finished;
    const before = await contents(join(cwd, "data"));
    const local = await svc(["check"], { cwd });
    const after = await contents(join(cwd, "data"));
    const done = await readFile(join(cwd, "done.txt"), "utf8");

    expect(same, same.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining("2 fit this code") });
    expect(remote, remote.stderr).toMatchObject({ code: 1 });
    expect(JSON.parse(remote.stdout)).toMatchObject({
      ...{ jobs: 2, fit: 0, unsure: [] },
      problems: ["one", "two"].map((id) => ({
        ...{ id, agent: "payer", verdict: "held", from: "1.0.0", to: "2.0.0" },
        ...{ expected: `step "fetch" of case "${id}"`, found: `step "load" of case "${id}"` },
      })),
    });
    expect(local).toMatchObject({ code: 1, stdout: expect.stringContaining("2 open jobs would be held") });
    expect(local.stdout).toContain('recorded: step "fetch" of case "one"');
    expect(after).toEqual(before);
    expect(done).toBe("fetch\nfetch\n");

    // The service holds the jobs that the check has named, and a person continues them.
    const second = beginSvc(["start"], { cwd, env });
    await second.prints(/Press Ctrl-C to stop/);
    await second.prints(/the job is held/, 2);
    const continued = await svc(["job", "continue", "--all-held"], { cwd });
    expect(continued, continued.stderr).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/one: continues/),
    });
    const moved = await svc(["job", "move", "two", "--to", "3.0.0"], { cwd });
    expect(moved).toMatchObject({ code: 1, stderr: expect.stringContaining("no version 3.0.0") });
  });
});
