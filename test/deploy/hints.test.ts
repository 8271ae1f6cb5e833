import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { PLATFORMS } from "../../src/cli/deploy/built-in.ts";
import { createHint } from "../../src/cli/deploy/hints.ts";
import { DeployError } from "../../src/deploy/errors.ts";
import type { DeployTarget, Platform } from "../../src/deploy/platform.ts";
import type { Ran } from "./_cli.ts";
import { svc } from "./_cli.ts";
import { temporaryProject } from "./_fixture.ts";

/** How a person leads each platform to a service that is not the default one. */
const PLACES: Readonly<Record<string, readonly string[]>> = {
  server: ["--host", "me@a.example,me@b.example", "--ssh-config", "my ssh"],
  "cloud-run": ["--region", "europe-west1", "--project-id=my-project"],
  "aws-ecs-express": ["--region", "eu-west-1", "--cluster", "agents"],
  "do-app-platform": ["--region", "fra"],
  "aws-app-runner": ["--region", "eu-west-1"],
};
const WITHOUT_PLATFORM = ["init", "ci", "local", "clean"];

/** Each command that a text of the source proposes, with what follows it in the text. */
function proposed(): string[] {
  const files = ["src/cli/deploy", "src/deploy", "src/plugins/platforms"].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" }).map((file) => join(folder, file)),
  );
  const lines = files
    .filter((file) => file.endsWith(".ts") && !file.endsWith("compiled-templates.ts"))
    .flatMap((file) => readFileSync(file, "utf8").split("\n"))
    .filter((line) => !/^\s*(\/\/|\/?\*)/.test(line) && !line.includes("--platform"));
  const texts = lines.flatMap((line) => line.match(/svc deploy [a-z][^"`]*/g) ?? []);
  return [...new Set(texts.map((text) => text.replaceAll(/\$\{[^}]*\}|<[a-z]+>|\\.*/g, "x")))];
}

/** The words of a line, as a shell reads them. */
function wordsOf(line: string): string[] {
  return (line.match(/(?:'[^']*'|[^\s'])+/g) ?? []).map((word) => word.replaceAll("'", ""));
}

/** The commands that a text has, without what follows them. */
function commandsIn(text: string): string[] {
  const command =
    /svc deploy [a-z][a-z-]*(?: --[a-z][a-z-]*(?:[= ](?!--)(?:'[^']*'|[^\s"';)]*[^\s"';,.)]))?)*/g;
  return text.match(command) ?? [];
}

describe("commands that svc deploy proposes", () => {
  it("are found in the source", () => {
    expect(proposed().length).toBeGreaterThan(50);
  });

  for (const [name, load] of Object.entries(PLATFORMS))
    it(`run as they are printed, on the same service: ${name}`, async () => {
      const platform = (await load()).default;
      const own = PLACES[platform.name] ?? [];
      const typed = ["--platform", name, "--env", "staging", "--name", "invoices", ...own];
      const reached: DeployTarget[] = [];
      const shown = {
        ...platform,
        defaults: undefined,
        connect(target: DeployTarget) {
          reached.push(target);
          throw new DeployError("failed", "reached");
        },
      } as unknown as Platform<never>;
      const cwd = temporaryProject();
      const run = (words: readonly string[]): Promise<Ran> =>
        svc({ cwd }, words, { platforms: { [name]: async () => ({ default: shown }) } });
      const failures: string[] = [];

      const commands = proposed().flatMap((text) =>
        commandsIn(createHint(["deploy", "status", ...typed], { verb: "status", platform })(text)),
      );
      for (const command of new Set(commands)) {
        const [, , verb = "", ...words] = wordsOf(command);
        reached.length = 0;
        const environment = / --env (\S+)/.exec(command)?.[1];
        const isPlaced = !WITHOUT_PLATFORM.includes(verb);
        const ran = await run([verb, ...words, ...(isPlaced ? [] : ["--help"])]);
        if (!isPlaced && ran.code === 0) continue;
        const [target] = reached;
        if (target === undefined) failures.push(`${command}: ${ran.code} ${ran.err}`);
        else if (target.serviceName !== `invoices-${environment}`)
          failures.push(`${command}: ${target.serviceName}`);
        for (const [index, word] of own.entries())
          if (word.startsWith("--") && !words.includes(word))
            failures.push(`${command}: without ${own[index]}`);
      }

      expect(failures).toEqual([]);
    });

  it("repeat every option where they repeat the command, and only the place where they do not", () => {
    const argv = ["deploy", "up", "--host", "me@a.example", "--memory", "512m", "--break-lock", "--yes"];
    const server = { flags: v.object({ host: v.string(), memory: v.optional(v.string()) }) } as never;
    const hint = createHint(argv, { verb: "up", platform: server });

    expect(hint("Fix it, and run svc deploy up again: it continues")).toBe(
      'Fix it, and run "svc deploy up --host me@a.example --memory 512m --yes" again: it continues',
    );
    expect(hint("svc deploy logs")).toBe("svc deploy logs --host me@a.example");
    expect(hint("Choose: svc deploy rollback --to r1, or svc deploy rollback --to r2")).toBe(
      "Choose: svc deploy rollback --host me@a.example --to r1, or svc deploy rollback --host me@a.example --to r2",
    );
    expect(hint("svc deploy exec --host me@b.example")).toBe("svc deploy exec --host me@b.example");
    expect(hint("Next: svc deploy init")).toBe("Next: svc deploy init");
  });
});
