import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { svc } from "./_cli.ts";
import { type Stage, stage, writeAll } from "./_fixture.ts";

const file = (release: string, variables = "GREETING: hello") =>
  `platform: memory\nname: hello\nvariables: { ${variables} }\nrelease: ${JSON.stringify(release)}\n`;
const write = (at: Stage, ...given: Parameters<typeof file>) =>
  writeAll(at.cwd, { "deploy.yaml": file(...given) });
const effects = (at: Stage) => readFileSync(join(at.cwd, ".deployment/effects"), "utf8");
const calls = (at: Stage, name: RegExp) => at.world.read().calls.filter((call) => name.test(call));
const MIGRATE = "mkdir -p .deployment; echo $GREETING $IMAGE | cut -c1-20 >> .deployment/effects";

it("a release command runs once in the new image, with its variables, before the release; not where nothing changes", async () => {
  const at = await stage({ predictable: true, commands: true });
  write(at, MIGRATE);

  const planned = await svc(at, "plan");
  const first = await svc(at, "up");
  const idle = await svc(at, "up");
  write(at, MIGRATE, "GREETING: bye");
  const second = await svc(at, "up");

  expect([first.code, idle.code, second.code], `${first.err}${second.err}`).toEqual([0, 0, 0]);
  expect(planned.out).toMatch(/create\s+command\s+mkdir/i);
  expect(planned.out).toContain("runs once in the new image, before it gets traffic");
  expect(first.err).toContain("Run the release command");
  expect(idle.err).not.toContain("Run the release command");
  expect(effects(at).trim().split("\n")).toEqual([
    expect.stringMatching(/^hello memory\.example/),
    expect.stringMatching(/^bye memory\.example/),
  ]);
  expect(calls(at, /command|service/)).toEqual([
    "command.run",
    "service.create",
    "command.run",
    "service.update",
  ]);
});

it("a release command that fails leaves what runs, and says what it said; the next up runs it again", async () => {
  const at = await stage({ predictable: true, commands: true });
  write(at, "true");
  await svc(at, "up");
  const before = at.world.read().services["hello-dev"];

  write(at, "echo no such table; exit 5", "GREETING: bye");
  const failed = await svc(at, "up");
  const between = at.world.read().services["hello-dev"];
  write(at, MIGRATE, "GREETING: bye");
  const again = await svc(at, "up");

  expect(failed.code).toBe(1);
  expect(failed.err).toContain("The release command failed: exit code 5");
  expect(failed.err).toContain("no such table");
  expect(between).toEqual(before);
  expect(again.code, again.err).toBe(0);
  expect(effects(at)).toMatch(/^bye /);
  expect(at.world.read().services["hello-dev"]?.revisions.at(-1)?.env.GREETING).toBe("bye");
});

it("a run that is resumed does not run the command of the same release again, and that of another one it does", async () => {
  const at = await stage({ predictable: true, commands: true });
  const slow = (isSlow: boolean) =>
    at.world.change((now) => {
      if (isSlow) now.faults["service.wait"] = "slow";
      else delete now.faults["service.wait"];
    });
  slow(true);
  write(at, MIGRATE);
  const stopped = await svc(at, "up --timeout 1");
  slow(false);
  const resumed = await svc(at, "up");
  slow(true);
  write(at, MIGRATE, "GREETING: bye");
  await svc(at, "up --timeout 1");
  slow(false);
  write(at, MIGRATE, "GREETING: later");
  const other = await svc(at, "up");

  expect([stopped.code, resumed.code, other.code], `${stopped.err}${resumed.err}${other.err}`).toEqual([
    4, 0, 0,
  ]);
  expect(resumed.err).toContain("it has succeeded before this run was resumed");
  expect(effects(at).match(/^\w+/gm)).toEqual(["hello", "bye", "later"]);
});

it("a platform that cannot run one refuses it by name, before anything is changed", async () => {
  const at = await stage({ predictable: true });
  write(at, MIGRATE);

  for (const command of ["plan", "up"]) {
    const refused = await svc(at, command);
    expect(refused.code).toBe(2);
    expect(refused.err).toContain("release: memory cannot run a command before a release");
  }
  appendFileSync(join(at.cwd, "deploy.yaml"), "hooks: { release: x }\n");
  expect((await svc(at, "plan")).err).toContain("hooks are beforeBuild and afterRelease");
  expect(at.world.read().calls).toEqual([]);
});
