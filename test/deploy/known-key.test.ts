import { describe, expect, it } from "vitest";
import { up } from "../../src/deploy/up.ts";
import { svc } from "./_cli.ts";
import { stage } from "./_fixture.ts";

const consent = async () => true;

describe("the API key of a service whose disk does not last", () => {
  it("is asked for before anything is built, where nobody would know it", async () => {
    const at = await stage({ predictable: true, ephemeralDisk: true });

    await expect(up(await at.open(), consent)).rejects.toMatchObject({
      exitCode: 5,
      message: expect.stringContaining("SERVICE_API_KEY is missing"),
      fix: expect.stringContaining("--generate-api-key"),
      outcome: "Nothing was built or released",
    });

    expect(at.world.read().calls).toEqual([]);
  });

  it.each([
    ["is generated into the vault", { generateApiKey: true }, {}],
    ["is given", {}, { SERVICE_API_KEY: "of-my-own-0123456789" }],
  ])("deploys where it %s, and again without it", async (_, options, env) => {
    const at = await stage({ predictable: true, ephemeralDisk: true, remoteBuild: true });

    const first = await at.open(options, { env: { PATH: process.env.PATH, ...env } });
    await up(first, consent);
    await first.close();
    const again = await up(await at.open(), consent);

    expect(again.changed).toBe(false);
    expect(at.world.read().secrets["hello-dev"]?.SERVICE_API_KEY?.value).toBeTruthy();
  });

  it("is not generated into a vault that shows nothing, unless it is printed", async () => {
    const at = await stage({ predictable: true, ephemeralDisk: true, readable: false, remoteBuild: true });

    const silent = await at.open({ generateApiKey: true });
    await expect(up(silent, consent)).rejects.toMatchObject({
      exitCode: 5,
      fix: expect.stringContaining("--show-api-key"),
    });
    await silent.close();
    const calls = at.world.read().calls.length;
    const shown = await up(await at.open({ generateApiKey: true, showApiKey: true }), consent);

    expect(calls).toBe(0);
    expect(shown.changed).toBe(true);
  });

  it("may be missing where the disk lasts", async () => {
    const at = await stage({ predictable: true, remoteBuild: true });

    await expect(up(await at.open(), consent)).resolves.toMatchObject({ changed: true });
  });

  it("is warned of by the plan, with what to do", async () => {
    const at = await stage({ predictable: true, ephemeralDisk: true });

    const { code, err } = await svc(at, "plan --platform memory --name hello");

    expect(code).toBe(0);
    expect(err).toMatch(/SERVICE_API_KEY is missing.*svc deploy up will refuse this/s);
    expect(err).toContain("--generate-api-key");
  });
});

describe("the first deployment that a command proposes", () => {
  const proposedIn = (text: string) => /svc deploy (up\b[^\n;,]*)/.exec(text)?.[1]?.trim() ?? "nothing";
  const target = "--platform memory --name hello";

  for (const [where, some] of [
    ["where the disk does not last", { ephemeralDisk: true }],
    ["where the vault shows nothing", { ephemeralDisk: true, readable: false }],
    ["where the disk lasts", {}],
  ] as const)
    for (const line of [
      `status ${target}`,
      `rollback ${target} --yes`,
      `plan ${target}`,
      `plan ${target} --generate-api-key`,
    ])
      it(`runs as it is printed, and somebody knows the key, ${where}: ${line}`, async () => {
        const at = await stage({ predictable: true, remoteBuild: true, ...some });

        const asked = await svc(at, line);
        const command = proposedIn(
          [...asked.out.split("\n").slice(-1), ...asked.err.split("\n").slice(-3)].join("\n"),
        );
        const made = await svc(at, command);

        expect(command).toContain("up --platform memory --name hello");
        expect(made, command).toMatchObject({ code: 0, err: expect.not.stringContaining("will refuse") });
        const { SERVICE_API_KEY: key } = at.world.read().secrets["hello-dev"] ?? {};
        expect(key?.value).toBeTruthy();
        if ("readable" in some) expect(made.out).toContain(key?.value);
      });

  it("has the other options of the plan, and makes no key that is given", async () => {
    const at = await stage({ predictable: true, ephemeralDisk: true, buckets: true });
    const given = { PATH: process.env.PATH, SERVICE_API_KEY: "of-my-own-0123456789" };

    const { out } = await svc(
      at,
      `plan ${target} --storage create --generate-rsa --no-check --detailed-exitcode`,
      {
        env: given,
      },
    );

    expect(proposedIn(out)).toBe(`up ${target} --storage create --generate-rsa --no-check`);
  });
});

it("a secret that is given by a variable ends without the line break that tools put there", async () => {
  const at = await stage({ predictable: true, remoteBuild: true });
  const { writeFileSync } = await import("node:fs");
  writeFileSync(
    `${at.cwd}/deploy.yaml`,
    "secrets:\n  ERP_TOKEN:\n  PAY_TOKEN: { env: PAY_LIVE }\n  LINES:\n",
  );

  await up(
    await at.open(
      {},
      {
        env: {
          PATH: process.env.PATH,
          SERVICE_API_KEY: "of-my-own-0123456789\n",
          ERP_TOKEN: "tok\n",
          PAY_LIVE: "paid\r\n",
          LINES: "one\ntwo\n\n",
        },
      },
    ),
    consent,
  );

  const stored = Object.entries(at.world.read().secrets["hello-dev"] ?? {});
  expect(Object.fromEntries(stored.map(([name, { value }]) => [name, value]))).toEqual({
    SERVICE_API_KEY: "of-my-own-0123456789",
    ERP_TOKEN: "tok",
    PAY_TOKEN: "paid",
    LINES: "one\ntwo\n",
  });
});
