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
import { docker, freePort } from "./_local-project.ts";
import { runKilled } from "./server/run-killed.ts";
import { KEY, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");
const FIRST = newRsaKey().trim();
/** A service has ten former keys at most, and a kill and the next run may each replace one. */
const MOST_KILLS = 4;

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

describe("svc deploy rotate-key on a server, killed at a line of its journal", () => {
  it("loses no key under an open job, which reads its parameters with the former one or the new one", async () => {
    const port = await freePort();
    const at = await site(sshd.config, port);
    const mine = at.checkout();
    const child = await bundleChild(new URL("server/child.ts", import.meta.url));
    mine.step("same");
    await mine.up({ env: { SERVICE_RSA_PRIVATE_KEY: FIRST } });
    const json = JSON.stringify({ TOKEN: "planted-4711" });
    const encrypted_agent_parameters = await at.ask("/utils/encrypt", json);
    await at.ask("/agents/asker/jobs", {
      ...{ job_context: jobContext("one"), job_fields: {} },
      encrypted_agent_parameters,
    });
    const statusOf = () =>
      at.ask("/jobs/one").then(
        ({ status }) => status,
        () => undefined,
      );
    await expect.poll(statusOf, { timeout: 60_000 }).toBe("awaiting");
    /** Signal of a run that replaces the key, and the lines of its journal. */
    const rotate = (killAt: number) => {
      const flags = { host: "server", sshConfig: sshd.config, bind: "127.0.0.1" };
      const env = { SERVICE_API_KEY: KEY };
      const options = {
        name: at.name,
        port,
        cwd: mine.cwd,
        flags,
        env,
        killAt,
        rotateKey: "rsa" as const,
      };
      return runKilled(child, options);
    };
    /** The present key of the container that serves, and the former ones. */
    const keys = () => rsaKeysIn(docker("exec", at.running()[0]!, "sh", "-c", "cat /run/secrets/*/*RSA*"));

    const { lines } = await rotate(0);
    expect(lines).toBeGreaterThan(5);
    expect(keys()).toContain(FIRST);
    expect(keys().length).toBe(2);
    const all = shareOf(
      Array.from({ length: lines }, (_, index) => index + 1),
      8,
    );
    const every = Math.ceil(all.length / MOST_KILLS);
    for (const killAt of all.filter((_, index) => index % every === 0)) {
      const before = keys();
      expect((await rotate(killAt)).signal).toBe("SIGKILL");
      await mine.up({ options: { rotateKey: "rsa" } });

      await expect.poll(statusOf, { timeout: 60_000 }).toBe("awaiting");
      expect(keys(), `killed at ${killAt}`).toEqual(expect.arrayContaining(before));
      expect(keys().length).toBeGreaterThan(before.length);
      expect(at.running().length).toBe(1);
    }
    await at.ask("/jobs/one/cases/one/update", { answer: { word: "done" } });
    await expect.poll(statusOf, { timeout: 60_000 }).toBe("completed");

    expect((await at.ask("/jobs/one/result")).result).toMatchObject({ read: "planted-4711".length });
  }, 600_000);
});
