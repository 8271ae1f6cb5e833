import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { writeFiles } from "../../src/deploy/files.ts";
import { openLocal } from "../../src/deploy/local/local-run.ts";
import { gatherLocalSecrets } from "../../src/deploy/local/local-secrets.ts";
import { checkOwnFiles } from "../../src/deploy/local/own-files.ts";
import { DEFAULT_OPTIONS } from "../../src/deploy/options.ts";
import { PROJECT, temporaryProject, writeAll } from "./_fixture.ts";

const COMPOSE = ".deployment/docker-compose.yml";
const FOREIGN = "services: {service: {image: evil}}\n";
const KEY = ".deployment/secrets/hello-dev/SERVICE_API_KEY";

/** A project, and what one user of it does. */
function user(files: Record<string, string> = {}, cwd = temporaryProject({ ...PROJECT, ...files })) {
  const config = temporaryProject({});
  const asked: string[] = [];
  const run = (answer?: boolean, more: object = {}) =>
    openLocal({
      options: { ...DEFAULT_OPTIONS, env: "dev", name: "hello", filesOnly: false, ...more } as never,
      cwd,
      env: { XDG_CONFIG_HOME: config },
      emit: () => undefined,
      ask:
        answer === undefined
          ? undefined
          : async (question) => {
              asked.push(question);
              return answer;
            },
    });
  return {
    cwd,
    config,
    asked,
    run,
    check: async (answer?: boolean, more?: object) => checkOwnFiles(await run(answer, more)),
    makeKeys: async () => gatherLocalSecrets(await run(undefined, { generateApiKey: true })),
  };
}

describe("a compose file that this user did not write", () => {
  it("is refused without a terminal, and used once a person agreed to exactly this text", async () => {
    const at = user({ [COMPOSE]: FOREIGN });

    await expect(at.check()).rejects.toMatchObject({
      exitCode: 5,
      message: expect.stringContaining(COMPOSE),
    });
    await expect(at.check(false)).rejects.toMatchObject({ exitCode: 5 });
    await at.check(true);
    await at.check();
    writeAll(at.cwd, { [COMPOSE]: `${FOREIGN}# more\n` });
    await expect(at.check()).rejects.toMatchObject({ exitCode: 5 });
    expect(at.asked).toHaveLength(2);
  });

  it("is used if an explicit option allows it, which is remembered", async () => {
    const at = user({ [COMPOSE]: FOREIGN });

    await at.check(undefined, { trustFiles: true });
    await at.check();
  });

  it("needs no question if it is the generated one, or will be", async () => {
    const at = user();
    await writeFiles(at.cwd, { "docker-compose.yml": "services: {}\n" });
    await at.check();
    writeAll(at.cwd, { [COMPOSE]: FOREIGN });
    await at.check(undefined, { overwriteFiles: true });
  });

  it("is confirmed for each user and each project separately", async () => {
    const one = user({ [COMPOSE]: FOREIGN });
    const two = user({}, one.cwd);
    await one.check(true);

    await expect(two.check()).rejects.toMatchObject({ exitCode: 5 });
  });
});

describe("keys of local tests", () => {
  it("are trusted if they were created here", async () => {
    const at = user();

    const { values } = await at.makeKeys();
    await at.check();
    const again = await at.makeKeys();

    expect(readFileSync(join(at.cwd, KEY), "utf8")).toBe(values.SERVICE_API_KEY);
    expect(again.values).toEqual(values);
  });

  it("that came with the project are refused, even if they only name a variable of the user", async () => {
    const key = user({ [KEY]: "a stranger's key" });
    const name = user({ ".deployment/secrets/hello-dev/AWS_SECRET_ACCESS_KEY": "" });
    const swapped = user();
    await swapped.makeKeys();
    writeAll(swapped.cwd, { [KEY]: "a stranger's key" });

    for (const at of [key, name, swapped])
      await expect(at.check()).rejects.toMatchObject({
        exitCode: 5,
        message: expect.stringContaining("secrets/"),
      });
  });

  it("are never read through a symbolic link", async () => {
    const at = user({ mine: "private words" });
    mkdirSync(join(at.cwd, ".deployment/secrets/hello-dev"), { recursive: true });
    symlinkSync(join(at.cwd, "mine"), join(at.cwd, KEY));

    await expect(at.check(true)).rejects.toThrow(/is a symbolic link/);
    expect(at.asked).toEqual([]);
  });

  it("are remembered for the user only, without their values", async () => {
    const at = user();
    const { values } = await at.makeKeys();

    const folder = join(at.config, "agent-control-service/trusted");
    const [file = ""] = readdirSync(folder);

    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(folder, file), "utf8")).not.toContain(values.SERVICE_API_KEY);
  });

  it("are confirmed again if the record is lost or damaged", async () => {
    const at = user();
    await at.makeKeys();
    const folder = join(at.config, "agent-control-service/trusted");
    const [file = ""] = readdirSync(folder);

    writeAll(folder, { [file]: '{"project": "' });
    await expect(at.check()).rejects.toMatchObject({ exitCode: 5 });
    rmSync(folder, { recursive: true });
    await at.check(true);
    await at.check();
  });
});
