import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const root = new URL("../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const filesIn = (folder: string) =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(?:ts|edge|md)$/.test(file))
    .map((file) => `${folder}/${file}`);
const GROUPS = ["access", "agent", "audit", "event", "events", "job", "schedule", "store", "deploy"];
/** Labels that keys are derived with. */
const LABELS = /svc job token 1"/g;

/** Words that follow `svc` and a group wherever a command is defined. */
const usages = (group: string) =>
  filesIn(`src/cli/${group}`).flatMap((file) =>
    [...read(file).matchAll(/usage: ["`]([a-z-]+)/g)].map(([, word]) => `svc ${group} ${word}`),
  );

it("messages, comments, pages and docs name only commands that exist", () => {
  const known = new Set(GROUPS.flatMap(usages));
  const named = new RegExp(`\\bsvc (?:${GROUPS.join("|")}) [a-z][a-z-]+`, "g");
  const files = [...filesIn("src"), ...filesIn("docs"), "README.md", "SECURITY.md"];

  const unknown = files.flatMap((file) =>
    [...read(file).replace(LABELS, "").matchAll(named)]
      .filter(([command]) => !known.has(command))
      .map(([command]) => `${file}: ${command}`),
  );

  expect(known.size).toBeGreaterThan(40);
  expect(unknown).toEqual([]);
});
