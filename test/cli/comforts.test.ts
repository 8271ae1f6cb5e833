// @long
import { spawn } from "node:child_process";
import { mkdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { access, beginSvc, PROCESS_TIME, project, REPOSITORY, svc } from "./_svc.ts";

const EXAMPLES = join(REPOSITORY, "examples/controller.ts");

async function startExamples() {
  const cwd = await project();
  const service = beginSvc(["start", EXAMPLES, "--port", "0"], { cwd });
  await service.prints(/Press Ctrl-C to stop/);
  return { cwd, service };
}

/** Runs a line of a shell in which `svc` is the command line that was built. */
async function shell(
  program: string,
  line: string,
  cwd: string,
): Promise<{ code: number | null; out: string }> {
  const bin = join(cwd, "bin");
  await mkdir(bin, { recursive: true });
  await symlink(join(REPOSITORY, "dist/cli.js"), join(bin, "svc")).catch(() => {});
  const child = spawn(program, ["-c", line], {
    cwd,
    env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (out += String(text)));
  const code = await new Promise<number | null>((done) => child.once("close", done));
  return { code, out };
}

describe("svc", { timeout: PROCESS_TIME }, () => {
  it("lists agents, shows the fields of one, and how to start it", async () => {
    const { cwd } = await startExamples();

    const list = await svc(["agent", "list"], { cwd });
    const shown = await svc(["agent", "show", "invoice-audit"], { cwd });
    const json = JSON.parse((await svc(["agent", "show", "invoice-audit", "--json"], { cwd })).stdout);
    const none = await svc(["agent", "show", "nobody"], { cwd });

    expect(list.stdout).toMatch(/^agent\s+version\s+status/);
    expect(list.stdout).toMatch(/^invoice-audit\s+\d+\.\d+\.\d+\s+available\s+0/m);
    expect(shown.stdout).toMatch(/^folder\s+char/m);
    expect(shown.stdout).toContain("npx svc job start invoice-audit");
    expect(json.name).toBe("Invoice Audit");
    expect(none).toMatchObject({ code: 1, stdout: "" });
  });

  it("deletes a job only after confirmation; restores it, and deletes it permanently, if asked to", async () => {
    const { cwd } = await startExamples();
    await svc(["job", "start", "hello", "--id", "gone", "--wait"], { cwd });

    const asked = await svc(["job", "delete", "gone"], { cwd });
    const kept = await svc(["job", "show", "gone"], { cwd });
    const deleted = await svc(["job", "delete", "gone", "--yes"], { cwd });
    const missing = await svc(["job", "show", "gone"], { cwd });
    const restored = await svc(["job", "restore", "gone"], { cwd });
    const erased = await svc(["job", "delete", "gone", "--yes", "--permanently"], { cwd });
    const lost = await svc(["job", "restore", "gone"], { cwd });

    expect(asked).toMatchObject({ code: 2, stderr: expect.stringContaining("--yes") });
    expect(kept.code).toBe(0);
    expect(deleted.stdout).toMatch(/^Job gone was deleted with \d+ cases?\nUntil \S+Z: svc job restore gone/);
    expect(missing.code).toBe(1);
    expect(restored.stdout).toMatch(/^Job gone was restored: it is completed/);
    expect(erased.stdout).toMatch(/^Job gone was deleted permanently/);
    expect(lost.code).toBe(1);
  });

  it("creates a link that signs in once", async () => {
    const { cwd } = await startExamples();
    const { url } = await access(cwd);

    const link = (await svc(["open"], { cwd })).stdout.trim();
    const page = await fetch(link);
    const token = new URL(link).searchParams.get("token")!;
    const post = () =>
      fetch(`${url}/admin/sign-in`, {
        method: "POST",
        body: new URLSearchParams({ token }),
        redirect: "manual",
      });
    const [first, second] = [await post(), await post()];

    expect(link.startsWith(url)).toBe(true);
    expect([page.status, first.status, second.status]).toEqual([200, 303, 401]);
  });

  it("reports failures as JSON if JSON was requested", async () => {
    const cwd = await project();

    const away = await svc(["job", "list", "--json", "--url", "http://127.0.0.1:9"], { cwd });
    const wrong = await svc(["job", "start", "--json"], { cwd });

    expect(JSON.parse(away.stdout)).toMatchObject({ error: expect.stringContaining("No service responds") });
    expect(away.code).toBe(1);
    expect(JSON.parse(wrong.stdout)).toMatchObject({ error: expect.stringContaining("Missing argument") });
    expect(wrong.code).toBe(2);
  });

  it("ends quietly when its output is closed early, and a service keeps running", async () => {
    const { cwd, service } = await startExamples();

    const { code, out } = await shell(
      "bash",
      "svc job --help | head -n 1; svc agent list --json | head -c 1",
      cwd,
    );
    // Nobody reads the service's lines any longer; each job writes some more.
    service.process.stdout!.destroy();
    service.process.stderr!.destroy();
    for (const id of ["a", "b"]) await svc(["job", "start", "hello", "--id", id, "--wait"], { cwd });
    const health = await fetch(`${(await access(cwd)).url}/.well-known/health`);

    expect(code).toBe(0);
    expect(out).not.toMatch(/EPIPE|Error/);
    expect(health.status).toBe(200);
    expect(service.process.exitCode).toBeNull();
  });

  it("completes commands, groups and options", async () => {
    const cwd = await project();
    const complete = async (...words: string[]) =>
      (await svc(["--complete", ...words], { cwd })).stdout.split("\n").filter((line) => line !== "");

    expect(await complete("de")).toEqual(["dev", "deploy"]);
    expect(await complete("job", "st")).toEqual(["start", "stop"]);
    expect(await complete("job", "start", "--max")).toEqual(["--max-cases", "--max-cost", "--max-duration"]);
    expect(await complete("job", "start", "--no")).toEqual(["--no-stop-on-error"]);
    expect(await complete("deploy", "do")).toEqual(["down", "doctor"]);
  });

  it("completes in bash while a person types", async () => {
    const cwd = await project();
    const line = [
      'eval "$(svc completion bash)"',
      "COMP_WORDS=(svc job sto)",
      "COMP_CWORD=2",
      "_svc",
      "echo $COMPREPLY",
    ].join("; ");

    expect((await shell("bash", line, cwd)).out).toBe("stop\n");
  });

  it("is also installed under the package's own name", async () => {
    const { bin } = JSON.parse(await readFile(join(REPOSITORY, "package.json"), "utf8"));

    expect(bin["agent-control-service"]).toBe(bin.svc);
  });

  it.each([
    ["Bun 1.4.5", "bun", "1.4.5"],
    ["Deno 2.9.6", "deno", "2.9.6"],
    ["Node.js 18.20.0", "node", "18.20.0"],
  ])("says in one sentence that %s is not supported", async (name, runtime, version) => {
    const cwd = await project({
      "as.mjs": `const versions = { ...process.versions, ${runtime}: "${version}" };
Object.defineProperty(process, "versions", { value: versions });`,
    });

    const end = await svc(["--version"], {
      cwd,
      command: [process.execPath, "--import", join(cwd, "as.mjs"), join(REPOSITORY, "dist/cli.js")],
    });

    expect(end).toMatchObject({ code: 1, stdout: "" });
    expect(end.stderr).toBe(`svc needs Node.js 20.19 or later, and this is ${name}.\n`);
  });
});
