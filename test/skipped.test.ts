// @alone
import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";

const ROOT = new URL("..", import.meta.url).pathname;

it("each skipped test is printed with what the machine lacks for it", { timeout: 60_000 }, () => {
  const words = ["node_modules/vitest/vitest.mjs", "run", "test/deploy/ssh-docker.test.ts"];
  const env = {
    ...process.env,
    DOCKER_HOST: "tcp://127.0.0.1:1",
    SVC_REQUIRE: "",
    SVC_PART: "",
    SVC_SINCE: "",
  };
  const { stdout, stderr } = spawnSync(process.execPath, words, { cwd: ROOT, env, encoding: "utf8" });

  expect(stdout + stderr).toMatch(/skipped: .+: no container runtime answers/);
});
