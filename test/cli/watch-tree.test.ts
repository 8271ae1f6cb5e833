import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { watchTree } from "../../src/cli/watch-tree.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "watch-"));
});
afterEach(() => rm(folder, { recursive: true }));

it("files of a folder that is created later are watched, too; the data folder is not", async () => {
  const changes: string[] = [];
  const stop = watchTree(folder, { onChange: (file) => void changes.push(file), onTrouble: () => {} });

  await mkdir(join(folder, "data"));
  await writeFile(join(folder, "data/journal"), "");
  await mkdir(join(folder, "lib"));
  await expect.poll(() => changes).toContain("lib");
  await writeFile(join(folder, "lib/checks.ts"), "");
  await expect.poll(() => changes).toContain("lib/checks.ts");
  stop();

  expect(changes.filter((file) => file.startsWith("data"))).toEqual([]);
});

it("a folder that cannot be watched is reported", async () => {
  const file = join(folder, "file");
  await writeFile(file, "");
  const troubles: unknown[] = [];

  watchTree(join(file, "below"), { onChange: () => {}, onTrouble: (where) => void troubles.push(where) })();

  expect(troubles).toEqual([join(file, "below")]);
});
