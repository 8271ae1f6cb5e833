import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { requirement } from "../_require.ts";
import { temporaryProject } from "./_fixture.ts";
import { docker } from "./_local-project.ts";
import { tracesInImage } from "./_traces.ts";
import { watchArguments } from "./_watch-arguments.ts";

const { describe, it } = requirement("linux");
const SECRET = `planted-${Math.random().toString(36).slice(2)}-secret`;

/** Runs a shell that has the secret as a variable, for some tenths of a second. */
function shell(command: string): void {
  spawnSync("sh", ["-c", `${command}; exit 0`], { env: { ...process.env, SECRET } });
}

describe("a watch over the arguments of processes", () => {
  for (const [how, word] of [
    ["as it is", '"$SECRET"'],
    ["within a word", '"postgres://me:$SECRET@database/agents"'],
    ["in base64", '"$(printf %s "$SECRET" | base64)"'],
  ])
    it(`names the program that has a secret in them ${how}, and never its value`, async () => {
      const watch = await watchArguments();

      shell(`sh -c 'sleep 0.3; :' sh ${word}`);

      const failure = await watch
        .expectNone({ PAY_TOKEN: SECRET }, ["sh"])
        .catch((error: Error) => error.message);
      expect(failure).toBe("Arguments with secrets: sh has PAY_TOKEN");
    });

  it("finds nothing where a secret reaches a program on its input", async () => {
    const watch = await watchArguments();

    shell('{ printf %s "$SECRET"; sleep 0.3; } | sed s/./x/ >/dev/null');

    await watch.expectNone({ PAY_TOKEN: SECRET }, ["sh", "sed"]);
  });

  it("fails where it has not seen the programs that a test runs", async () => {
    const watch = await watchArguments();

    await expect(watch.expectNone({ PAY_TOKEN: SECRET }, ["never-run"])).rejects.toThrow(
      "No arguments of never-run were seen",
    );
  });
});

describe("a search for secrets in an image", () => {
  requirement("docker").it("finds them in a file of a layer, in its settings and in its history", () => {
    const name = `svc-test-traces:${Math.random().toString(36).slice(2, 8)}`;
    const folder = temporaryProject();
    writeFileSync(join(folder, "file"), `a ${SECRET} in a file`);
    writeFileSync(
      join(folder, "Dockerfile"),
      `FROM scratch\nARG TOKEN=${SECRET}-argument\nENV TOKEN=${SECRET}-variable\nCOPY file /file\n`,
    );
    onTestFinished(() => void docker("image", "rm", "--force", name));
    docker("build", "--quiet", "--force-rm", "--tag", name, folder);

    const found = [
      ...tracesInImage(name, {
        ...{ FILE: `a ${SECRET} in`, VARIABLE: `${SECRET}-variable`, ARGUMENT: `${SECRET}-argument` },
        OTHER: "never-planted-0123456789",
      }),
    ];

    expect(found).toEqual(
      expect.arrayContaining([
        ...["history: VARIABLE", "history: ARGUMENT", "settings: VARIABLE"],
        expect.stringMatching(/layer\.tar: FILE/),
      ]),
    );
    expect(found.join()).not.toContain("OTHER");
  });
});
