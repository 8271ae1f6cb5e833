// @long
import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { rsaKeysIn } from "../../src/core/service/rsa-key.ts";
import type { DeployOptions } from "../../src/deploy/options.ts";
import { up } from "../../src/deploy/up.ts";
import { type Stage, stage, writeAll } from "./_fixture.ts";
import type { MemoryOptions } from "./_memory-platform.ts";

const RSA = "SERVICE_RSA_PRIVATE_KEY";
const PREVIOUS = "SERVICE_PREVIOUS_RSA_PRIVATE_KEY";
const FIRST = generateKeyPairSync("rsa", { modulusLength: 2048 })
  .privateKey.export({ type: "pkcs8", format: "pem" })
  .toString()
  .trim();
const API_KEY = "the-first-api-key-0123456789";
const yes = async () => true;

interface Run {
  readonly rotateKey?: DeployOptions["rotateKey"];
  /** The step of the journal at whose end the process dies. */
  readonly killAt?: string | undefined;
  readonly env?: Readonly<Record<string, string>>;
}

/** An `up`; a killed one never returns from what it was about to do. */
async function run(at: Stage, { rotateKey, killAt, env = {} }: Run = {}): Promise<void> {
  const dead = new Promise<never>(() => undefined);
  let die: () => void = () => undefined;
  const killed = new Promise<void>((resolve) => {
    die = resolve;
  });
  const opened = await at.open(
    { generateApiKey: true, generateRsa: true },
    { env: { PATH: process.env.PATH, ...env } },
  );
  const deployment = { ...opened, options: { ...opened.options, rotateKey } };
  const { journal } = deployment;
  const record = journal.record.bind(journal);
  journal.record = async (step, call) => {
    const result = await record(step, call);
    if (step.step !== killAt) return result;
    die();
    return dead;
  };
  try {
    await Promise.race([up(deployment, yes), killed]);
  } finally {
    await opened.close();
  }
}

/** The value that the serving release has of a secret. */
const runningValue = (at: Stage, name: string): string | undefined => {
  const { revisions, serving } = at.world.read().services["hello-dev"]!;
  const version = Number(
    revisions.find((one) => one.name === serving)?.secrets[name]?.split(":")[1] ?? Number.NaN,
  );
  return at.world.read().secrets["hello-dev"]?.[name]?.all[version - 1];
};
const formerKeys = (at: Stage) => rsaKeysIn(runningValue(at, PREVIOUS));

async function deployed(options: Partial<MemoryOptions> = {}): Promise<Stage> {
  const at = await stage({ predictable: true, ...options });
  writeAll(at.cwd, { "deploy.yaml": "platform: memory\nname: hello\n" });
  await run(at, { env: { [RSA]: FIRST, SERVICE_API_KEY: API_KEY } });
  return at;
}

const KINDS: readonly (readonly [string, Partial<MemoryOptions>])[] = [
  ["that says what its releases refer to", {}],
  ["that says so by the mark alone", { refers: false }],
];

describe.each(KINDS)("a key that is replaced, on a platform %s", (_, options) => {
  it("is kept as the former one, with those of before, in each later deployment", async () => {
    const at = await deployed(options);

    await run(at, { rotateKey: "rsa" });
    const second = runningValue(at, RSA)!.trim();
    await run(at, { rotateKey: "rsa" });
    await run(at);

    expect(second).not.toBe(FIRST);
    expect(runningValue(at, RSA)?.trim()).not.toBe(second);
    expect(formerKeys(at)).toEqual([second, FIRST]);
  });

  it("is replaced for clients, too", async () => {
    const at = await deployed(options);

    await run(at, { rotateKey: "api" });

    expect(runningValue(at, "SERVICE_API_KEY")).toMatch(/^[\w-]{43}$/);
    expect(runningValue(at, "SERVICE_PREVIOUS_API_KEY")).toBe(API_KEY);
  });

  it("is not replaced again while its former one is valid, which clients may have", async () => {
    const at = await deployed(options);
    await run(at, { rotateKey: "api" });
    const second = runningValue(at, "SERVICE_API_KEY");

    await expect(run(at, { rotateKey: "api" })).rejects.toMatchObject({
      message: "SERVICE_PREVIOUS_API_KEY is still valid, and would end",
    });
    writeAll(at.cwd, {
      "deploy.yaml":
        "platform: memory\nname: hello\nsecrets: { SERVICE_PREVIOUS_API_KEY: { remove: true } }\n",
    });
    await expect(run(at, { rotateKey: "api" })).rejects.toThrow(/removes SERVICE_PREVIOUS_API_KEY/);
    expect([runningValue(at, "SERVICE_API_KEY"), runningValue(at, "SERVICE_PREVIOUS_API_KEY")]).toEqual([
      second,
      API_KEY,
    ]);
    await run(at);
    writeAll(at.cwd, { "deploy.yaml": "platform: memory\nname: hello\n" });
    await run(at, { rotateKey: "api" });

    expect(runningValue(at, "SERVICE_PREVIOUS_API_KEY")).toBe(second);
  });

  it.each(["SERVICE_PREVIOUS_API_KEY", "SERVICE_API_KEY"])(
    "is the one that clients have, or the former one, where the run for a new API key is killed after %s",
    async (name) => {
      const at = await deployed(options);
      await run(at, { rotateKey: "api", killAt: `secret ${name}` });
      const between = [runningValue(at, "SERVICE_API_KEY"), runningValue(at, "SERVICE_PREVIOUS_API_KEY")];

      await run(at, { rotateKey: "api" });

      expect(between).toContain(API_KEY);
      expect(runningValue(at, "SERVICE_API_KEY")).not.toBe(API_KEY);
      expect(runningValue(at, "SERVICE_PREVIOUS_API_KEY")).toBe(API_KEY);
    },
  );

  it.each([`secret ${PREVIOUS}`, `secret ${RSA}`, "release"])(
    "is not lost where the run is killed after %s, and the next one finishes it",
    async (killAt) => {
      const at = await deployed(options);
      await run(at, { rotateKey: "rsa", killAt });
      const stored = at.world.read().secrets["hello-dev"]![RSA]!.value.trim();

      await run(at, { rotateKey: "rsa" });

      expect(formerKeys(at)).toContain(FIRST);
      expect(runningValue(at, RSA)?.trim()).not.toBe(FIRST);
      if (stored !== FIRST) expect([runningValue(at, RSA)?.trim(), ...formerKeys(at)]).toContain(stored);
    },
  );

  it("stays valid where a plain deployment follows a run that was killed", async () => {
    const at = await deployed(options);
    await run(at, { rotateKey: "rsa", killAt: `secret ${RSA}` });

    await run(at);

    expect(runningValue(at, RSA)?.trim()).not.toBe(FIRST);
    expect(formerKeys(at)).toEqual([FIRST]);
  });
});

describe("an RSA key that the platform does not show", () => {
  const second = "SERVICE_RSA_PRIVATE_KEY_2";
  const third = "SERVICE_RSA_PRIVATE_KEY_3";
  /** A vault that shows nothing, with a service whose key nobody knows. */
  const unknown = async () => {
    const at = await stage({ predictable: true, readable: false });
    writeAll(at.cwd, { "deploy.yaml": "platform: memory\nname: hello\n" });
    await run(at, { env: { SERVICE_API_KEY: API_KEY } });
    return at;
  };
  const configure = (at: Stage, secrets: string) =>
    writeAll(at.cwd, { "deploy.yaml": `platform: memory\nname: hello\nsecrets: { ${secrets} }\n` });

  it("is replaced under the next number, again and again, and all of before stay", async () => {
    const at = await unknown();
    const first = runningValue(at, RSA);

    await run(at, { rotateKey: "rsa" });
    const next = runningValue(at, second);
    await run(at, { rotateKey: "rsa" });
    await run(at);

    expect(rsaKeysIn(first).length).toBe(1);
    expect([runningValue(at, RSA), runningValue(at, second)]).toEqual([first, next]);
    expect(new Set([first, next, runningValue(at, third)]).size).toBe(3);
    expect(rsaKeysIn(runningValue(at, third)).length).toBe(1);
  });

  it.each([second, undefined])(
    "is replaced once by a run that is killed after %s and the next one",
    async (name) => {
      const at = await unknown();
      await run(at, { rotateKey: "rsa", killAt: name === undefined ? "release" : `secret ${name}` });
      const stored = at.world.read().secrets["hello-dev"]![second]!.value;

      if (name === undefined) await run(at);
      else await run(at, { rotateKey: "rsa" });

      expect(runningValue(at, second)).toBe(stored);
      expect(at.world.read().secrets["hello-dev"]?.[third]).toBeUndefined();
    },
  );

  it("is released by a plain deployment that follows a run that was killed", async () => {
    const at = await unknown();
    await run(at, { rotateKey: "rsa", killAt: `secret ${second}` });

    await run(at);

    expect(runningValue(at, second)).toBeDefined();
  });

  it("can be removed once it was replaced, and stays removed", async () => {
    const at = await unknown();
    await run(at, { rotateKey: "rsa" });
    configure(at, `${RSA}: { remove: true }`);

    await run(at);
    const between = [runningValue(at, RSA), runningValue(at, second)];
    await run(at, { rotateKey: "rsa" });

    expect(between).toEqual([undefined, expect.stringContaining("PRIVATE KEY")]);
    expect(runningValue(at, RSA)).toBeUndefined();
    expect([runningValue(at, second), runningValue(at, third)]).toEqual([
      between[1],
      expect.stringContaining("PRIVATE KEY"),
    ]);
  });

  it("is not removed while it is the present one", async () => {
    const at = await unknown();
    await run(at, { rotateKey: "rsa" });
    configure(at, `${second}: { remove: true }`);

    await expect(run(at)).rejects.toThrow(`removes ${second}`);
    await expect(run(at, { rotateKey: "rsa" })).rejects.toThrow(`removes ${second}`);

    expect(runningValue(at, second)).toBeDefined();
  });

  it("is not replaced beside ten former ones, and the oldest is named", async () => {
    const at = await unknown();
    for (let count = 0; count < 10; count++) await run(at, { rotateKey: "rsa" });

    await expect(run(at, { rotateKey: "rsa" })).rejects.toMatchObject({
      message: `${RSA} is still valid, and would end`,
      fix: expect.stringContaining(`${RSA}: { remove: true }`),
    });

    expect(runningValue(at, `${RSA}_11`)).toBeDefined();
  });

  it("stays beside a former one that an earlier version of the command has kept", async () => {
    const at = await stage({ predictable: true, readable: false });
    writeAll(at.cwd, { "deploy.yaml": `platform: memory\nname: hello\nsecrets: { ${PREVIOUS}: }\n` });
    await run(at, { env: { [PREVIOUS]: FIRST, SERVICE_API_KEY: API_KEY } });

    await run(at, { rotateKey: "rsa" });

    expect(runningValue(at, PREVIOUS)).toBe(FIRST);
    expect(runningValue(at, second)).toBeDefined();
  });
});

it("a key whose value the configuration gives is replaced there", async () => {
  const at = await deployed();
  writeAll(at.cwd, { "deploy.yaml": `platform: memory\nname: hello\nsecrets: { ${RSA}: }\n` });

  await expect(run(at, { rotateKey: "rsa" })).rejects.toMatchObject({
    message: expect.stringContaining("deploy.yaml gives SERVICE_RSA_PRIVATE_KEY its value"),
    fix: expect.stringContaining(PREVIOUS),
  });
});
