import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { PLATFORMS } from "../../src/cli/deploy/built-in.ts";
import { SETTINGS } from "../../src/deploy/file/settings.ts";
import { svc } from "./_cli.ts";
import { stage } from "./_fixture.ts";

const DOCS = ["deploy", "deploy-clouds", "deploy-server"].map(
  (name) => [name, readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), "utf8")] as const,
);
const OPTION = /(?<![\w-])--[a-z][a-z-]*[a-z]/g;
const COMMANDS =
  "plan up status list down logs rollback doctor export setup backup restore init ci local clean rotate-key";

/** The options of each command, as its help lists them. */
async function optionsOf(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const at = await stage();
  const found = new Map<string, ReadonlySet<string>>();
  for (const command of COMMANDS.split(" ")) {
    const { out } = await svc(at, `${command} --help`, { platforms: PLATFORMS });
    const listed = [...out.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, name = ""]) => name);
    found.set(command, new Set(listed.map((name) => name.replace(/^--no-(?=rollback|check)/, "--"))));
  }
  return found;
}

/** Commands in a text, in code, as lines: a line that ends with a backslash is continued. */
function commandsIn(text: string): [string, string][] {
  const lines = text.replaceAll("\\\n", " ");
  return [...lines.matchAll(/svc deploy ([a-z-]+)([^`\n#|;&]*)/g)].map(([, name = "", rest = ""]) => [
    name,
    rest,
  ]);
}

const named = (text: string) =>
  (text.match(OPTION) ?? []).map((name) => name.replace(/^--no-(?=rollback|check)/, "--"));

describe("options of svc deploy", () => {
  it.each(DOCS)("that docs/%s.md shows exist, at the command that it shows", async (_name, text) => {
    const options = await optionsOf();
    const all = new Set([...options.values()].flatMap((names) => [...names]));
    const shown = commandsIn(text).filter(([name]) => options.has(name));
    // One is npm's.
    const alone = [...text.matchAll(/`(--(?!save-dev)[a-z][^`]*)`/g)].map(([, code = ""]) => code);

    const wrong = shown.flatMap(([name, rest]) =>
      named(rest)
        .filter((one) => !options.get(name)?.has(one))
        .map((one) => `${name} ${one}`),
    );
    const unknown = alone.flatMap(named).filter((one) => !all.has(one));

    expect(all.size).toBeGreaterThan(40);
    expect(wrong).toEqual([]);
    expect(unknown).toEqual([]);
  });

  it("are all settings of deploy.yaml that every platform has", async () => {
    const up = (await optionsOf()).get("up");

    const names = Object.keys(SETTINGS).map(
      (key) => `--${key.replaceAll(/[A-Z]/g, (sign) => `-${sign.toLowerCase()}`)}`,
    );

    expect(names.filter((name) => !up?.has(name))).toEqual([]);
  });

  it("of one command of a platform are in the help of that command alone", async () => {
    const options = await optionsOf();

    const showing = [...options].flatMap(([name, shown]) => (shown.has("--remove-data") ? [name] : []));

    expect(showing).toEqual(["down"]);
  });

  it("with another meaning or start value on each platform are described for each", async () => {
    const at = await stage();

    const { out } = await svc(at, "up --help", { platforms: PLATFORMS });

    const [cpu = ""] = /^ +--cpu .*$/m.exec(out) ?? [];
    for (const [platform, start] of [
      ["cloud-run", "1"],
      ["aws-app-runner", "1024"],
      ["aws-ecs-express", "256"],
    ])
      expect(cpu).toMatch(new RegExp(`${platform}: [^;]*\\(new service: ${start}\\)`));
  });

  it("of one platform are not asked for where no platform is named: the platform is", async () => {
    const at = await stage();

    const { code, err } = await svc(at, "up", { platforms: PLATFORMS });

    expect(code).toBe(2);
    expect(err).toMatch(
      /^svc deploy: Option --platform is missing\. Set --platform to one of: server, cloud-run, aws-ecs-express, do-app-platform, aws-app-runner\./,
    );
    expect(err).toContain("svc deploy init");
  });
});
