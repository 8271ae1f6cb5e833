import { expect, it } from "vitest";
import { buildImage } from "../../src/deploy/docker.ts";
import { isDeployError } from "../../src/deploy/errors.ts";

/** The failure of a build with this output. */
async function failureOf(stderr: string) {
  const tools = { exec: async () => ({ code: 1, stdout: "", stderr }) };
  const docker = { version: "27.0.0", buildx: false, architecture: "amd64", compose: undefined };
  const error = await buildImage(tools as never, docker, {
    tar: (async function* () {})(),
    ref: "hello:one",
  }).catch((cause: unknown) => cause);
  if (!isDeployError(error)) throw error;
  return error;
}

const OPTIONS = Array.from({ length: 200 }, (_, at) => `npm error   --option-${at}`).join("\n");

it("a build whose lock file does not fit shows what npm says of it, not the end of its help, and what to do", async () => {
  const { log, fix } = await failureOf(
    `Step 4/9\n\u001b[91mnpm error code EUSAGE\nnpm error Missing: one@2.0.0 from lock file\n${OPTIONS}\n`,
  );

  expect(log.slice(0, 2)).toEqual(["npm error code EUSAGE", "npm error Missing: one@2.0.0 from lock file"]);
  expect(log.length).toBeLessThan(50);
  expect(fix).toMatch(/lock file does not fit package\.json.*install/);
});

it("a build that fails otherwise shows its last lines", async () => {
  const { log } = await failureOf(`${OPTIONS}\nthe compiler has crashed`);

  expect(log.at(-1)).toBe("the compiler has crashed");
});
