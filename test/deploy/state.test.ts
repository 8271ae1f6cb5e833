import { readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readLock, takeLock } from "../../src/deploy/lock.ts";
import { openState, parseState } from "../../src/deploy/state.ts";
import { temporaryProject, writeAll } from "./_fixture.ts";

const now = () => new Date();
const one = { id: "one", command: "svc deploy up", now };
const two = { id: "two", command: "svc deploy down", now };

const STATE = {
  version: 2 as const,
  service_name: "hello-dev",
  platform: "memory",
  environment: "dev",
  region: "here-1",
  project_id: null,
  image_tag: "one",
  image_digest: null,
  service_url: null,
  revision: "r1",
  created_at: "2026-01-01T00:00:00.000Z",
  updated_at: "2026-01-01T00:00:00.000Z",
  status: "running",
  health_status: "healthy",
  port: 8000,
  api_key_generated: false,
  rsa_key_generated: false,
  provider_data: {},
};

describe("the state file", () => {
  it("is one per platform, name and environment, readable only for the owner", async () => {
    const cwd = temporaryProject();
    const dev = openState({ cwd, platform: "memory", serviceName: "hello-dev" });
    const prod = openState({ cwd, platform: "memory", serviceName: "hello-prod" });

    await dev.write(STATE);
    await prod.write({ ...STATE, service_name: "hello-prod", revision: "r7" });

    expect((await dev.read())?.revision).toBe("r1");
    expect((await prod.read())?.revision).toBe("r7");
    expect(statSync(dev.path).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(join(cwd, ".deployment/state.json"), "utf8")).revision).toBe("r7");
  });

  it("is one per machine where a platform has several, inside of its folder", async () => {
    const cwd = temporaryProject();
    const at = (place: string) => openState({ cwd, platform: "server", serviceName: "hello-dev", place });
    const state = { ...STATE, platform: "server" };

    await at("me@one.example").write(state);
    await at("..").write({ ...state, revision: "r2" });

    expect((await at("me@one.example").read())?.revision).toBe("r1");
    expect(await at("me@two.example").read()).toBeUndefined();
    expect(at("..").path).toBe(join(cwd, ".deployment/state/server/%2E./hello-dev.json"));
  });

  it("of version 1 is read", async () => {
    const old = {
      service_name: "hello-dev",
      platform: "memory",
      env: "dev",
      region: "here-1",
      image_tag: "abc",
      service_url: "https://hello.example",
      provider: { arn: "x" },
    };
    const cwd = temporaryProject({ ".deployment/state.json": JSON.stringify(old) });

    const state = await openState({ cwd, platform: "memory", serviceName: "hello-dev" }).read();

    expect(state).toMatchObject({
      version: 2,
      environment: "dev",
      port: 8000,
      service_url: "https://hello.example",
      provider_data: { arn: "x" },
    });
  });

  it("of another target is not changed", async () => {
    const cwd = temporaryProject({ ".deployment/state.json": JSON.stringify(STATE) });

    expect(await openState({ cwd, platform: "memory", serviceName: "other-dev" }).read()).toBeUndefined();
  });

  it.each([
    ['{"version": 3}', /format version 3/],
    ["{torn", /it is not JSON/],
    ['{"version": 2}', /service_name/],
  ])("that cannot be read is reported with the reason: %s", (text, message) => {
    expect(() => parseState(text, "state.json")).toThrow(message);
  });
});

describe("the lock of a target", () => {
  it("is held by one run at a time, and released after it", async () => {
    const path = join(temporaryProject(), "lock");
    const first = await takeLock(path, one);

    await expect(takeLock(path, two)).rejects.toMatchObject({
      exitCode: 6,
      message: expect.stringMatching(/svc deploy up/),
    });
    await first.release();
    const second = await takeLock(path, two);

    expect(second.tookOver).toBeUndefined();
    await second.release();
    expect(readLock(path)).toBeUndefined();
  });

  it("of a process that has died is taken over, by one run only", async () => {
    const holder = {
      id: "dead",
      pid: 2 ** 22 + 1,
      host: hostname(),
      holder: "ann",
      since: "2026-01-01T00:00:00.000Z",
    };
    const cwd = temporaryProject({ lock: JSON.stringify(holder) });
    const path = join(cwd, "lock");

    const results = await Promise.allSettled([takeLock(path, one), takeLock(path, two)]);

    const taken = results.filter((result) => result.status === "fulfilled");
    expect(taken).toHaveLength(1);
    expect(taken[0]?.value.tookOver).toBe("ann");
  });

  it("of another machine is valid while it is touched", async () => {
    const holder = { id: "far", pid: 1, host: "elsewhere", holder: "bob", since: "2026-01-01T00:00:00.000Z" };
    const cwd = temporaryProject();
    writeAll(cwd, { lock: JSON.stringify(holder) });
    const later = () => new Date(Date.now() + 3_600_000);

    await expect(takeLock(join(cwd, "lock"), one)).rejects.toMatchObject({ exitCode: 6 });
    const lock = await takeLock(join(cwd, "lock"), { ...one, now: later });

    expect(lock.tookOver).toBe("bob");
    await lock.release();
  });

  it("is released only by its holder", async () => {
    const path = join(temporaryProject(), "lock");
    const lock = await takeLock(path, one);
    writeAll(join(path, ".."), { lock: JSON.stringify({ id: "other" }) });

    await lock.release();

    expect(readLock(path)?.id).toBe("other");
  });
});
