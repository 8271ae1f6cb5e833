import { describe, expect, it } from "vitest";
import type { Platform } from "../../src/deploy/platform.ts";
import { svc } from "./_cli.ts";
import { stage, writeAll } from "./_fixture.ts";

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

  it("says how long a deployment takes only where there is something to deploy", async () => {
    const at = await stage({ predictable: true });
    const first = await svc(at, `plan ${TARGET}`);
    await svc(at, `up ${TARGET} ${KEYS} --yes`);

    const idle = await svc(at, `plan ${TARGET}`);

    expect(first.out).toMatch(/Duration +\S/);
    expect(idle.out).toContain("Nothing to do");
    expect(idle.out).not.toContain("Duration");
  });

  it("names the revision that a rollback went to, and the one that the platform made of it", async () => {
    const at = await stage({ predictable: true });
    const connect: Platform<never>["connect"] = async (target, tools) => {
      const session = await at.platform.connect(target, tools);
      return { ...session, rollback: async (to) => ({ ...(await session.rollback(to)), revision: "r3" }) };
    };
    const copying = { ...at, platform: { ...at.platform, connect } };
    await svc(at, `up ${TARGET} ${KEYS} --yes`);
    writeAll(at.cwd, { "deploy.yaml": "variables: { GREETING: hello }\n" });
    await svc(at, `up ${TARGET} --yes`);

    const { out } = await svc(copying, `rollback ${TARGET} --yes`);

    expect(out).toContain("Revision r1 is serving again, as r3");
  });

  it("says of a service without a key that it has made one, and where it can be read from then on", async () => {
    const at = await stage({ predictable: true });

    const without = await svc(at, `up ${TARGET} --yes`);
    const again = await svc(at, `up ${TARGET} --yes`);

    expect(without.out).toMatch(/API key +the service has made one, .*svc deploy up .*--generate-api-key/);
    expect(again.out).not.toContain("API key");
  });

  it("says of a service that is not healthy what to do next", async () => {
    const at = await stage({ predictable: true });
    await svc(at, `up ${TARGET} ${KEYS} --yes`);
    const well = await svc(at, `status ${TARGET}`);
    const connect: Platform<never>["connect"] = async (target, tools) => {
      const session = await at.platform.connect(target, tools);
      const inspect = async () => {
        const live = await session.inspect();
        return live && { ...live, url: "http://127.0.0.1:9" };
      };
      return { ...session, inspect };
    };

    const ill = await svc({ ...at, platform: { ...at.platform, connect } }, `status ${TARGET}`);

    expect(well.out).not.toContain("Next");
    expect(ill).toMatchObject({
      code: 1,
      out: expect.stringMatching(/Next +.*svc deploy logs .*svc deploy up/),
    });
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
