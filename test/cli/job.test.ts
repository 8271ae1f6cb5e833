// @long
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { access, beginSvc, PROCESS_TIME, project, REPOSITORY, type Running, svc } from "./_svc.ts";

const EXAMPLES = join(REPOSITORY, "examples/controller.ts");

async function startExamples(): Promise<{ cwd: string; service: Running }> {
  const cwd = await project();
  const service = beginSvc(["start", EXAMPLES, "--port", "0"], { cwd });
  await service.prints(/Press Ctrl-C to stop/);
  return { cwd, service };
}

describe("svc job", { timeout: PROCESS_TIME }, () => {
  it("runs the invoice audit with the command that the service prints", async () => {
    const { cwd, service } = await startExamples();
    const [, command] = await service.prints(/npx svc (job start invoice-audit .*)/);

    const end = await svc([...command!.split(" "), "--field", "deadline=1s"], { cwd });

    expect(end, end.stderr).toMatchObject({ code: 0, stderr: "" });
    expect(end.stdout).toContain("? Pay SW-77121098 of Stadtwerke Hafenstadt?");
    expect(end.stdout).toContain("completed: 60 invoices: 49 to pay, 7 rejected, 4 on hold");
    expect(end.stdout).toMatch(/"report": ".*invoice-audit-job-.*\.md"/);

    const list = await svc(["job", "list"], { cwd });
    expect(list.stdout).toMatch(/^job-\w+\s+invoice-audit\s+completed\s+.*(now|ago)\s+60 invoices/m);
    const [job] = JSON.parse((await svc(["job", "list", "--json", "--limit", "1"], { cwd })).stdout);
    const shown = JSON.parse((await svc(["job", "show", job.job_id, "--json"], { cwd })).stdout);
    expect(shown).toMatchObject({ agent_name: "invoice-audit", status: "completed" });
    expect(shown.cases).toHaveLength(60);
  });

  it("answers a question with the command that `watch` prints, across a kill of the service", async () => {
    const { cwd, service } = await startExamples();
    const start = ["job", "start", "invoice-audit", "--field", "deadline=1h", "--id", "audit"];
    await svc(start, { cwd });
    const watch = beginSvc(["job", "watch", "audit"], { cwd });
    const answers: string[][] = [];
    for (let nth = 1; nth <= 4; nth++) {
      const [, command] = await watch.prints(/npx svc (job answer audit \S+) --field approved=yes/, nth);
      answers.push(command!.split(" "));
    }

    const { url } = await access(cwd);
    service.process.kill("SIGKILL");
    await service.finished;
    await watch.prints(/The service is unreachable/);
    const again = beginSvc(["start", EXAMPLES, "--port", new URL(url).port], { cwd });
    await again.prints(/Press Ctrl-C to stop/);
    for (const answer of answers) {
      const given = await svc([...answer, "--field", "approved=yes"], { cwd });
      expect(given, given.stderr).toMatchObject({ code: 0 });
    }
    const end = await watch.finished;

    expect(end, end.stderr).toMatchObject({ code: 0 });
    expect(end.stdout).toContain("completed: 60 invoices: 53 to pay, 7 rejected, 0 on hold");
    const late = await svc([...answers[0]!, "--field", "approved=no"], { cwd });
    expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining("has no open question") });
  });

  it("shows a question that is asked while another one is open", async () => {
    const cwd = await project({
      "src/controller.ts": `
import { existsSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { createServer, defineAgent } from "agent-control-service";
import * as v from "valibot";
const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  methods: { job_start: { async run({ job }) {
    const early = await job.openCase({ id: "early", name: "Early" });
    const late = await job.openCase({ id: "late", name: "Late" });
    const ask = (item) => item.ask({ question: item.id + "?", fields: v.object({ yes: v.boolean() }) });
    const later = async () => {
      await late.step("wait", async () => { while (!existsSync("go")) await wait(20); });
      return ask(late);
    };
    await Promise.all([ask(early), later()]);
  } } },
});
export default createServer({ agents: [asker] });
`,
    });
    await beginSvc(["start", "--port", "0"], { cwd }).prints(/Press Ctrl-C to stop/);
    const watch = beginSvc(["job", "start", "asker", "--id", "two", "--wait"], { cwd });
    await watch.prints(/svc job answer two early/);
    await writeFile(join(cwd, "go"), "");
    await watch.prints(/svc job answer two late/);
    for (const item of ["early", "late"])
      await svc(["job", "answer", "two", item, "--field", "yes=no"], { cwd });
    const end = await watch.finished;

    expect(end).toMatchObject({ code: 0 });
    expect(end.stdout.match(/\? (early|late)\?/g)).toEqual(["? early?", "? late?"]);
  });

  it("stops a job, and retries it", async () => {
    const { cwd } = await startExamples();
    await svc(["job", "start", "invoice-audit", "--field", "deadline=1h", "--id", "audit"], { cwd });
    const watch = beginSvc(["job", "watch", "audit"], { cwd });
    await watch.prints(/npx svc job answer/);

    const stop = await svc(["job", "stop", "audit"], { cwd });
    expect(stop, stop.stderr).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/Job audit is cancell(ing|ed)/),
    });
    expect(await watch.finished).toMatchObject({ code: 1, stdout: expect.stringContaining("cancelled") });

    const retry = await svc(["job", "retry", "audit"], { cwd });
    expect(retry, retry.stderr).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("is running again"),
    });
    const waiting = beginSvc(["job", "watch", "audit"], { cwd });
    await waiting.prints(/npx svc job answer/);
  });

  it("ends a job at its limit, and resumes it with a raised one", async () => {
    const { cwd } = await startExamples();

    const limited = await svc(["job", "start", "hello", "--id", "h", "--max-cases", "1", "--wait"], { cwd });
    expect(limited).toMatchObject({ code: 1, stdout: expect.stringContaining("max_cases") });

    const resumed = await svc(["job", "resume", "h", "--max-cases", "3"], { cwd });
    expect(resumed, resumed.stderr).toMatchObject({ code: 0 });
    expect(await svc(["job", "watch", "h"], { cwd })).toMatchObject({ code: 0 });
  });

  it("reports a problem with what to do", async () => {
    const { cwd } = await startExamples();
    const { url } = await access(cwd);
    const elsewhere = await project();

    const told = async (args: string[], options: { cwd: string; env?: Record<string, string> }) => {
      const { code, stderr } = await svc(["job", ...args], options);
      return { code, stderr };
    };
    const cases = await Promise.all([
      told(["list"], { cwd: elsewhere, env: { SERVICE_PORT: "1" } }),
      told(["list", "--url", url], { cwd: elsewhere }),
      told(["list", "--url", url], { cwd: elsewhere, env: { SERVICE_API_KEY: "not-the-right-key" } }),
      told(["list", "--url", "nowhere"], { cwd }),
      told(["start", "invoice"], { cwd }),
      told(["start", "hello", "--field", "nmaes=Ada"], { cwd }),
      told(["show", "nope"], { cwd }),
      told(["start"], { cwd }),
    ]);

    expect(cases).toEqual([
      { code: 1, stderr: expect.stringContaining("No service responds at http://127.0.0.1:1") },
      { code: 1, stderr: expect.stringContaining("requires an API key") },
      { code: 1, stderr: expect.stringContaining("rejected the API key") },
      { code: 2, stderr: expect.stringContaining('"nowhere" is not a valid URL') },
      {
        code: 1,
        stderr: expect.stringContaining(
          "Agents on this service: reply-desk, assistant, contract-review, invoice-audit, log-watch, hello",
        ),
      },
      { code: 2, stderr: expect.stringContaining("Did you mean names?") },
      { code: 1, stderr: expect.stringContaining('Job "nope" does not exist') },
      { code: 2, stderr: expect.stringContaining("Missing argument <agent>") },
    ]);
  });
});
