// @long
import { execFile } from "node:child_process";
import { readdir, readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { shareOf } from "../_share.ts";
import { access, beginSvc, PROCESS_TIME, project, REPOSITORY, svc } from "./_svc.ts";

const TSC = join(REPOSITORY, "node_modules/typescript/bin/tsc");

const VITEST = join(REPOSITORY, "node_modules/vitest/vitest.mjs");

describe("svc init", { timeout: PROCESS_TIME }, () => {
  it("writes a project that passes its own check, and runs", async () => {
    const cwd = await project();
    for (const name of ["@types", "vitest"])
      await symlink(join(REPOSITORY, "node_modules", name), join(cwd, "node_modules", name));

    const end = await svc(["init", "Café Service", "--agent", "Invoice Sorter", "--package", "1.2.3"], {
      cwd,
    });

    expect(end).toMatchObject({ code: 0, stderr: "" });
    expect(end.stdout).toContain("cd Café Service");
    const folder = join(cwd, "Café Service");
    expect((await readdir(folder)).sort()).toEqual([
      ".gitignore",
      "README.md",
      "package.json",
      "src",
      "test",
      "tsconfig.json",
    ]);
    expect((await readFile(join(folder, ".gitignore"), "utf8")).split("\n")).toEqual(
      expect.arrayContaining(["data/", ".env", ".env.*"]),
    );
    const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    expect(manifest).toMatchObject({
      name: "cafe-service",
      dependencies: { "agent-control-service": "1.2.3", valibot: expect.stringMatching(/^\^1\./) },
    });
    expect(await readFile(join(folder, "README.md"), "utf8")).toContain(
      "svc job start invoice-sorter --wait",
    );
    await promisify(execFile)(process.execPath, [TSC, "--noEmit"], { cwd: folder });
    // Each of its tests has a limit of its own: a busy machine takes longer than the default one.
    const tested = await promisify(execFile)(process.execPath, [VITEST, "run", "--testTimeout=1"], {
      cwd: folder,
    });
    expect(tested.stdout).toMatch(/Tests .*2 passed/);

    const service = beginSvc(["start"], { cwd: folder, env: { SERVICE_PORT: "0" } });
    await service.prints(/agents\s+invoice-sorter/);
    const job = await svc(["job", "start", "invoice-sorter", "--field", "limit=50", "--wait"], {
      cwd: folder,
    });
    expect(job, job.stderr).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("completed: Words: 7"),
    });
    expect((await access(folder)).url).toMatch(/^http:/);
  });

  it.each(shareOf(["agent", "chat", "approval", "langgraph"], 4))(
    "writes a project with the template %s whose tests pass",
    async (template) => {
      const cwd = await project();
      const packages = ["@types", "vitest", "ai", "@ai-sdk", "@langchain"];
      for (const name of packages)
        await symlink(join(REPOSITORY, "node_modules", name), join(cwd, "node_modules", name));

      const end = await svc(["init", "desk", "--template", template, "--yes"], { cwd });

      expect(end).toMatchObject({ code: 0, stderr: "" });
      const folder = join(cwd, "desk");
      const written = await readdir(folder, { recursive: true });
      const texts = await Promise.all(
        written.filter((name) => /\.\w+$/.test(name)).map((name) => readFile(join(folder, name), "utf8")),
      );
      expect(texts.join("\n")).not.toContain("{{");
      const { dependencies } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
      expect(dependencies).toMatchObject({
        ai: expect.stringMatching(/^\^6\./),
        zod: expect.stringMatching(/^\^4\./),
      });
      await promisify(execFile)(process.execPath, [TSC, "--noEmit"], { cwd: folder });
      const tested = await promisify(execFile)(process.execPath, [VITEST, "run", "--testTimeout=1"], {
        cwd: folder,
      });
      expect(tested.stdout).toMatch(/Tests .*2 passed/);
    },
  );

  it("does not change existing files", async () => {
    const cwd = await project({ "README.md": "mine" });

    const end = await svc(["init", "--yes"], { cwd });

    expect(end).toMatchObject({ code: 1, stderr: expect.stringContaining("README.md") });
    expect(await readFile(join(cwd, "README.md"), "utf8")).toBe("mine");
    expect((await readdir(cwd)).sort()).toEqual(["README.md", "node_modules", "package.json"]);
  });

  it("refuses a name that yields no slug", async () => {
    const cwd = await project();

    const end = await svc(["init", "x", "--agent", "!!!"], { cwd });

    expect(end).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('"!!!" is not a valid agent name'),
    });
  });
});
