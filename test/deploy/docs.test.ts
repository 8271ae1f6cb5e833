import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

it("the page on platforms shows the current example", () => {
  const [, shown] = /```ts\n([\s\S]*?)\n```/.exec(read("docs/platforms.md")) ?? [];

  expect(shown).toBe(read("examples/ssh-docker/platform.ts").trimEnd());
});

it("the page on deploying names every exit code and command", () => {
  const page = read("docs/deploy.md");

  for (const command of [
    "plan",
    "up",
    "status",
    "logs",
    "rollback",
    "down",
    "doctor",
    "local",
    "clean",
    "setup",
    "export",
    "ci",
    "list",
    "backup",
    "restore",
  ])
    expect(page).toContain(`\`svc deploy ${command}\``);
  for (const code of [0, 1, 2, 3, 4, 5, 6, 7]) expect(page).toMatch(new RegExp(`\\| ${code} +\\|`));
});
