// @long
// @losses
import { afterAll, beforeAll, expect } from "vitest";
import { rsaKeysIn } from "../../src/core/service/rsa-key.ts";
import { newRsaKey } from "../../src/deploy/secrets.ts";
import { bundleChild } from "../_bundle.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { jobContext } from "../runs/_jobs.ts";
import { writeAll } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";
import { tracesOf } from "./_traces.ts";
import { watchArguments } from "./_watch-arguments.ts";
import { runKilled } from "./server/run-killed.ts";
import { failure, KEY, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");
const FIRST = newRsaKey().trim();
/** A service has ten former keys at most, and a kill and the next run may each replace one. */
const MOST_KILLS = 4;
const API_KEY = "SERVICE_API_KEY";
const PREVIOUS_API_KEY = "SERVICE_PREVIOUS_API_KEY";
/** What a deployment to a server runs, there and here. */
const PROGRAMS = ["ssh", "docker"];
/** A container starts. */
const WAIT = { timeout: 60_000 };

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

describe("svc deploy rotate-key on a server, killed at a line of its journal", () => {
  it("loses no RSA key under an open job, which reads its parameters with the former one or the new one", async () => {
    const watch = await watchArguments();
    const { at, mine, rotate, statusOf, held, finish } = await withJob({ SERVICE_RSA_PRIVATE_KEY: FIRST });
    const keys = () => rsaKeysIn(held("*RSA*"));

    const { lines } = await rotate("rsa", 0);
    expect(lines).toBeGreaterThan(5);
    expect(keys()).toContain(FIRST);
    expect(keys().length).toBe(2);
    for (const killAt of killsOf(lines)) {
      const before = keys();
      expect((await rotate("rsa", killAt)).signal).toBe("SIGKILL");
      await mine.up({ options: { rotateKey: "rsa" } });

      await expect.poll(() => statusOf(KEY), WAIT).toBe("awaiting");
      expect(keys(), `killed at ${killAt}`).toEqual(expect.arrayContaining(before));
      expect(keys().length).toBeGreaterThan(before.length);
      expect(at.running().length).toBe(1);
    }

    await finish(KEY);
    const bodies = keys().map((key, index) => [`RSA_${index}`, bodyOf(key)] as const);
    const secrets = { ...Object.fromEntries(bodies), SERVICE_API_KEY: KEY };
    await watch.expectNone(secrets, PROGRAMS);
    expect(tracesOf(at.serviceName, mine.cwd, secrets)).toEqual([]);
  }, 600_000);

  it("leaves clients the API key that they have, at every moment and until it is removed", async () => {
    const watch = await watchArguments();
    const { at, mine, rotate, statusOf, held, finish } = await withJob({});
    const present = () => held(API_KEY);
    // Where it is given, it would be set back.
    const env = { SERVICE_API_KEY: undefined } as never;
    const configure = (secrets: string) =>
      writeAll(mine.cwd, { "deploy.yaml": `variables: { STEP: same }\nsecrets: {${secrets}}\n` });
    const retire = async (former: string) => {
      configure(` ${PREVIOUS_API_KEY}: { remove: true } `);
      await mine.up({ env });
      await expect.poll(() => statusOf(former), WAIT).toBe(401);
      configure("");
      return present();
    };

    configure("");
    const { lines } = await rotate("api", 0);
    expect([await statusOf(KEY), await statusOf(present())]).toEqual(["awaiting", "awaiting"]);
    expect(present()).not.toBe(KEY);
    const secrets: Record<string, string> = { FIRST: KEY };
    let known = await retire(KEY);
    for (const killAt of killsOf(lines)) {
      expect((await rotate("api", killAt)).signal).toBe("SIGKILL");
      await expect.poll(() => statusOf(known), WAIT).toBe("awaiting");
      await mine.up({ env, options: { rotateKey: "api" } }).catch((error: unknown) => {
        // The key was replaced before the kill.
        expect(failure(error).message).toBe(`${PREVIOUS_API_KEY} is still valid, and would end`);
        return mine.up({ env });
      });

      await expect.poll(() => statusOf(known), WAIT).toBe("awaiting");
      expect(await statusOf(present()), `killed at ${killAt}`).toBe("awaiting");
      expect([present() === known, held(PREVIOUS_API_KEY)]).toEqual([false, known]);
      secrets[`KEY_${killAt}`] = known;
      expect(at.running().length).toBe(1);
      known = await retire(known);
    }

    await finish(known);
    await watch.expectNone({ ...secrets, PRESENT: present() }, PROGRAMS);
    expect(tracesOf(at.serviceName, mine.cwd, secrets)).toEqual([]);
  }, 600_000);
});

/** A service on the server, with a job that waits for a person and has a secret parameter. */
async function withJob(env: Readonly<Record<string, string>>) {
  const port = await freePort();
  const at = await site(sshd.config, port);
  const mine = at.checkout();
  const child = await bundleChild(new URL("server/child.ts", import.meta.url));
  mine.step("same");
  await mine.up({ env });
  const json = JSON.stringify({ TOKEN: "planted-4711" });
  const encrypted_agent_parameters = await at.ask("/utils/encrypt", json);
  await at.ask("/agents/asker/jobs", {
    ...{ job_context: jobContext("one"), job_fields: {} },
    encrypted_agent_parameters,
  });
  const send = (key: string, path: string, body?: unknown) =>
    fetch(`${at.url}${path}`, {
      headers: { "x-api-key": key, "content-type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
  /** The status of the job, or why it is unknown: a status of HTTP, or nothing while the container is replaced. */
  const statusOf = async (key: string): Promise<unknown> => {
    const response = await send(key, "/jobs/one").catch(() => undefined);
    return response?.ok ? ((await response.json()) as { status: string }).status : response?.status;
  };
  await expect.poll(() => statusOf(KEY), WAIT).toBe("awaiting");
  return {
    at,
    mine,
    statusOf,
    /** A run that replaces the key: its signal, and the lines of its journal. */
    rotate: (rotateKey: "rsa" | "api", killAt: number) => {
      const flags = { host: "server", sshConfig: sshd.config, bind: "127.0.0.1" };
      const given: Record<string, string> = rotateKey === "api" ? {} : { SERVICE_API_KEY: KEY };
      return runKilled(child, { name: at.name, port, cwd: mine.cwd, flags, env: given, killAt, rotateKey });
    },
    /** What the container that serves has in the files of these names. */
    held: (names: string) =>
      docker("exec", at.running()[0]!, "sh", "-c", `cat /run/secrets/*/${names}`).trim(),
    /** Answers the job, which then reads its parameters. */
    async finish(key: string) {
      await send(key, "/jobs/one/cases/one/update", { answer: { word: "done" } });
      await expect.poll(() => statusOf(key), WAIT).toBe("completed");
      const { result } = (await (await send(key, "/jobs/one/result")).json()) as { result: unknown };
      expect(result).toMatchObject({ read: "planted-4711".length });
    },
  };
}

/** A line of a key, which no other key has. */
function bodyOf(key: string): string {
  return key.split("\n")[5]!;
}

/** Some of the lines of a journal, other ones in each run. */
function killsOf(lines: number): number[] {
  const all = Array.from({ length: lines }, (_, index) => index + 1);
  const shared = shareOf(all, 8);
  const every = Math.ceil(shared.length / MOST_KILLS);
  return shared.filter((_, index) => index % every === 0);
}
