// @long
import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { buildPackage } from "./_built.ts";
import { shareOf } from "./_share.ts";

const MODULES = fileURLToPath(new URL("../node_modules/", import.meta.url));
const ENTRIES = ["", "/plugin", "/store", "/deploy", "/testing"];

test.each([...shareOf(["typescript-5.4", "typescript-5.9"], 2), "typescript"])(
  "a project that checks the types of its libraries compiles with %s",
  async (compiler) => {
    await using built = await buildPackage();
    const folder = await mkdtemp(join(tmpdir(), "compiled-"));
    try {
      await mkdir(join(folder, "node_modules/@types"), { recursive: true });
      await symlink(built.folder, join(folder, "node_modules/agent-control-service"));
      await symlink(join(MODULES, "@types/node"), join(folder, "node_modules/@types/node"));
      await writeFile(join(folder, "package.json"), '{ "type": "module" }');
      const lines = ENTRIES.map((entry) => `export * from "agent-control-service${entry}";`);
      await writeFile(join(folder, "all.ts"), lines.join("\n"));
      const options = [
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--types",
        "node",
      ];
      const args = [join(MODULES, compiler, "bin/tsc"), ...options, "--skipLibCheck", "false", "all.ts"];

      const checked = await promisify(execFile)(process.execPath, args, { cwd: folder }).catch(
        (error: { stdout: string }) => error,
      );

      expect(checked.stdout).toBe("");
    } finally {
      await rm(folder, { recursive: true });
    }
  },
  600_000,
);

test.each([...shareOf(["typescript-5.4", "typescript-5.9"], 2), "typescript"])(
  "with %s, an approval knows the input of its tool, and a misspelled option of a tool does not compile",
  async (compiler) => {
    await using built = await buildPackage();
    const folder = await mkdtemp(join(tmpdir(), "compiled-"));
    try {
      await mkdir(join(folder, "node_modules/@types"), { recursive: true });
      await symlink(built.folder, join(folder, "node_modules/agent-control-service"));
      for (const name of ["@types/node", "ai", "zod"])
        await symlink(join(MODULES, name), join(folder, "node_modules", name));
      await writeFile(join(folder, "package.json"), '{ "type": "module" }');
      await copyFile(new URL("./ai/_tool-types.ts", import.meta.url), join(folder, "tools.ts"));
      const options = [
        "--noEmit",
        "--strict",
        "--skipLibCheck",
        "--target",
        "es2022",
        "--module",
        "nodenext",
      ];
      const args = [join(MODULES, compiler, "bin/tsc"), ...options, "--types", "node", "tools.ts"];

      const checked = await promisify(execFile)(process.execPath, args, { cwd: folder }).catch(
        (error: { stdout: string }) => error,
      );

      expect(checked.stdout).toBe("");
    } finally {
      await rm(folder, { recursive: true });
    }
  },
  600_000,
);
