import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { beginSvc, PROCESS_TIME, project, svc } from "./_svc.ts";

const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";

const counter = defineAgent({
  name: "Counter",
  version: "1.0.0",
  methods: { job_start: {
    fields: [{ name: "contract", field_type: "FileField", required: true }],
    run: ({ job, fields }) => job.step("report", async ({ file }) => {
      const text = await job.open(fields.contract).text();
      return file("report.csv", "bytes\\n" + text.length + "\\n");
    }),
  } },
});

export default createServer({ agents: [counter] });
`;

it(
  "svc job uploads what a field names, lists the files of a job and downloads one",
  async () => {
    const cwd = await project();
    await writeFile(join(cwd, "controller.mjs"), CONTROLLER);
    await writeFile(join(cwd, "contract.txt"), "twelve bytes");
    const service = beginSvc(["start", "controller.mjs", "--port", "0"], { cwd });
    await service.prints(/Press Ctrl-C to stop/);

    const start = ["job", "start", "counter", "--id", "job-1", "--wait", "--field"];
    const ended = await svc([...start, "contract=@contract.txt"], { cwd });
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    const missing = await svc([...start, "contract=@nothing.txt"], { cwd });
    expect([missing.code, missing.stderr]).toEqual([
      2,
      expect.stringContaining("nothing.txt cannot be read"),
    ]);

    const listed = await svc(["job", "files", "job-1"], { cwd });
    expect(listed.stdout).toMatch(/contract\.txt\s+text\/plain\s+12\s+field/);
    expect(listed.stdout).toMatch(/report\.csv\s+text\/csv\s+9\s+step/);
    const got = await svc(["job", "files", "job-1", "--get", "report.csv"], { cwd });
    expect(got, got.stderr).toMatchObject({ code: 0 });
    expect(await readFile(join(cwd, "report.csv"), "utf8")).toBe("bytes\n12\n");
    const again = await svc(["job", "files", "job-1", "--get", "report.csv"], { cwd });
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("already exists")]);
  },
  PROCESS_TIME,
);
