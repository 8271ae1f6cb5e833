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

describe("a key that the platform does not show", () => {
  it("is asked for, and kept", async () => {
    const at = await deployed({ readable: false });

    await expect(run(at, { rotateKey: "rsa" })).rejects.toMatchObject({
      fix: expect.stringContaining(`${RSA}=…`),
    });
    await run(at, { rotateKey: "rsa", env: { [RSA]: FIRST } });

    expect(formerKeys(at)).toEqual([FIRST]);
    expect(runningValue(at, RSA)?.trim()).not.toBe(FIRST);
  });

  it("is not replaced again without the former ones, which are asked for, too", async () => {
    const at = await deployed({ readable: false });
    await run(at, { rotateKey: "rsa", env: { [RSA]: FIRST } });
    const second = runningValue(at, RSA)!;

    await expect(run(at, { rotateKey: "rsa", env: { [RSA]: second } })).rejects.toMatchObject({
      fix: expect.stringContaining(`${PREVIOUS}=…`),
    });
    await run(at, { rotateKey: "rsa", env: { [RSA]: second, [PREVIOUS]: FIRST } });

    expect(formerKeys(at)).toEqual([second.trim(), FIRST]);
  });

  it("is not replaced once more by a run that knows only an earlier one", async () => {
    const at = await deployed({ readable: false });
    await run(at, { rotateKey: "rsa", env: { [RSA]: FIRST } });

    await expect(run(at, { rotateKey: "rsa", env: { [RSA]: FIRST } })).rejects.toThrow(
      /stores another SERVICE_RSA_PRIVATE_KEY/,
    );
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
