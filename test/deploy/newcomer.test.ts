import { describe, expect, it } from "vitest";
import type { Platform } from "../../src/deploy/platform.ts";
import { svc } from "./_cli.ts";
import { stage } from "./_fixture.ts";

const TARGET = "--platform memory --name hello";
const KEYS = "--generate-api-key --generate-rsa";

describe("what svc deploy prints for a newcomer", () => {
  it("names the subject of each check that passed, once", async () => {
    const at = await stage({ predictable: true });

    const { err } = await svc(at, `up ${TARGET} ${KEYS} --yes`);

    const [, passed = ""] = /✓.* Check credentials and permissions \S+ \w+ {2}(.+)/.exec(err) ?? [];
    for (const one of passed.split(", ")) expect(one).toMatch(/^[^:]+: ./);
    expect(new Set(passed.split(", ")).size).toBe(passed.split(", ").length);
  });

  it("has a digest in the table of the plan in twelve digits", async () => {
    const at = await stage({ predictable: true });
    await svc(at, `up ${TARGET} ${KEYS} --yes`);

    const { out } = await svc(at, `plan ${TARGET}`);

    expect(out).toMatch(/NOOP {2,}image .*@sha256:[0-9a-f]{12}… {2}already running/);
    expect(out).not.toMatch(/sha256:[0-9a-f]{13}/);
  });

  it("does not say that deploy.yaml lacks the keys of the service, which no file lists", async () => {
    const at = await stage({ predictable: true });
    await svc(at, `up ${TARGET} ${KEYS} --yes`);
    await svc(at, `rotate-key ${TARGET} --yes`);

    const { err } = await svc(at, `plan ${TARGET}`);

    expect(err).toContain("Plan");
    expect(err).not.toMatch(/it keeps/);
  });

  it("says of a log without lines how far back it looked, and of a service that does not run that there is none", async () => {
    const at = await stage({ predictable: true });

    const before = await svc(at, `logs ${TARGET}`);
    await svc(at, `up ${TARGET} ${KEYS} --yes`);
    const connect: Platform<never>["connect"] = async (target, tools) => ({
      ...(await at.platform.connect(target, tools)),
      async *logs() {},
    });
    const silent = { ...at, platform: { ...at.platform, connect } };
    const after = await svc(silent, `logs ${TARGET} --since 5`);

    expect(before).toMatchObject({
      code: 1,
      out: "",
      err: expect.stringMatching(
        /"hello-dev" is not deployed on memory \(\S+\): there is no log.*svc deploy up/s,
      ),
    });
    expect(after).toMatchObject({
      code: 0,
      err: expect.stringContaining("wrote nothing in the last 5 minutes"),
    });
  });

  it.each([
    "status",
    "logs",
    "exec",
    "exec -- node --version",
    "backup --to copy",
    "restore --from copy --yes",
    "rollback --yes",
    "rotate-key --yes",
  ])("says of what was never deployed that it is not, and how it is: %s", async (command) => {
    const at = await stage({ predictable: true });
    const never = async () => {
      throw new Error("nothing is there");
    };
    const connect: Platform<never>["connect"] = async (target, tools) => ({
      ...(await at.platform.connect(target, tools)),
      enter: never,
      backup: never as never,
      restore: never,
    });
    const [verb = "", ...words] = command.split(" ");

    const { code, err, out } = await svc(
      { ...at, platform: { ...at.platform, connect } },
      [verb, TARGET, ...words].join(" "),
    );

    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toMatch(/"hello-dev" is not deployed on memory \(\S+\)/);
    expect(err).toMatch(/Deploy it: svc deploy up .*--generate-api-key.*svc deploy list/s);
  });

  for (const [key, variable] of [
    ["rsa", "SERVICE_PREVIOUS_RSA_PRIVATE_KEY"],
    ["api", "SERVICE_PREVIOUS_API_KEY"],
  ] as const)
    it(`says after a rotation that the former key is valid, and how it ends: ${key}`, async () => {
      const at = await stage({ predictable: true });
      const first = await svc(at, `up ${TARGET} ${KEYS} --yes`);

      const { code, out } = await svc(at, `rotate-key ${TARGET} --key ${key} --yes`);

      expect(code).toBe(0);
      expect(first.out).not.toContain("Former key");
      expect(out).toContain(
        `Former key  ${variable}: valid until you remove it, with "${variable}: { remove: true }"`,
      );
    });
});
