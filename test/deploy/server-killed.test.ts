// @long
// @losses
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { prepare } from "../../src/deploy/plan.ts";
import { bundleChild } from "../_bundle.ts";
import { requirement } from "../_require.ts";
import { limitOf, shareOf } from "../_share.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { jobContext } from "../runs/_jobs.ts";
import { writeAll } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";
import { leftovers } from "./server/leftovers.ts";
import { runKilled } from "./server/run-killed.ts";
import { type Checkout, KEY, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

describe("svc deploy up to a server, killed at a line of its journal", () => {
  it("finishes when it is repeated: one container, the wanted release, no lock, no journal", async () => {
    const port = await freePort();
    const at = await site(sshd.config, port);
    const mine = at.checkout();
    const child = await bundleChild(new URL("server/child.ts", import.meta.url));
    const { name, serviceName } = at;
    const flags = { host: "server", sshConfig: sshd.config, bind: "127.0.0.1" };
    const options = { name, port, cwd: mine.cwd, flags, env: { SERVICE_API_KEY: KEY } };
    mine.step("first");
    await mine.up();
    mine.step("undisturbed");
    const { lines } = await runKilled(child, { ...options, killAt: 0 });
    expect(lines).toBeGreaterThan(8);

    const failures: string[] = [];
    expect(existsSync(join(mine.cwd, `.deployment/state/server/server/${serviceName}.json`))).toBe(true);
    const kills = shareOf(
      Array.from({ length: lines }, (_, index) => index + 1),
      8,
    );
    for (const killAt of kills) {
      mine.step(`killed at ${killAt}`);
      const { signal } = await runKilled(child, { ...options, killAt });
      if (signal !== "SIGKILL") failures.push(`${killAt}: ended with ${signal}`);
      const { release } = await mine.up();
      const left = at.running();
      if (release.env?.STEP !== `killed at ${killAt}`) failures.push(`${killAt}: ${release.env?.STEP}`);
      if (left.length !== 1) failures.push(`${killAt}: ${left}`);
      for (const one of leftovers(serviceName, mine.cwd)) failures.push(`${killAt}: ${one} is left`);
    }

    expect(failures).toEqual([]);
  }, 600_000);
});

/** One thing that an `up` changes, with a value that no earlier one had. */
interface Wanted {
  readonly env: Readonly<Record<string, string>>;
  readonly flags: Readonly<Record<string, unknown>>;
}

const SHARES = 12;
const FIRST: Wanted = {
  env: { SERVICE_API_KEY: `${KEY}-0`, PAY_TOKEN: "token-0" },
  flags: { memory: "400m" },
};
const withEnv = (before: Wanted, name: string, value: string): Wanted => ({
  ...before,
  env: { ...before.env, [name]: value },
});
const CHANGES: readonly (readonly [string, (before: Wanted, count: number) => Wanted])[] = [
  ["a secret", (before, count) => withEnv(before, "PAY_TOKEN", `token-${count}`)],
  ["the API key", (before, count) => withEnv(before, "SERVICE_API_KEY", `${KEY}-${count}`)],
  ["a setting", (before, count) => ({ ...before, flags: { memory: `${400 + count}m` } })],
];

for (const [what, change] of CHANGES)
  describe(`svc deploy up to a server that changes only ${what}, killed at a line of its journal`, () => {
    it(
      "is completed there and in another checkout: the new value serves, no open job vanishes",
      async () => {
        const port = await freePort();
        const at = await site(sshd.config, port);
        const child = await bundleChild(new URL("server/child.ts", import.meta.url));
        const checkout = () => {
          const made = at.checkout();
          writeAll(made.cwd, { "deploy.yaml": "variables: { STEP: same }\nsecrets: { PAY_TOKEN: }\n" });
          return made;
        };
        const run = async (from: Checkout, { env, flags }: Wanted, killAt: number) => {
          const all = { host: "server", sshConfig: sshd.config, bind: "127.0.0.1", ...flags };
          return runKilled(child, { name: at.name, port, cwd: from.cwd, flags: all, env, killAt });
        };
        const ask = async (key: string, path: string, body?: unknown) => {
          const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
          const headers = { "x-api-key": key, "content-type": "application/json" };
          const response = await fetch(`${at.url}${path}`, { headers, ...sent }).catch(() => undefined);
          return response?.ok ? ((await response.json()) as Record<string, unknown>) : undefined;
        };
        /** What of it the container that serves does not have. */
        const missing = async ({ env, flags }: Wanted): Promise<string[]> => {
          const [serving = ""] = at.running();
          if (serving === "") return ["everything"];
          const token = docker("exec", serving, "sh", "-c", "cat /run/secrets/*/PAY_TOKEN");
          const memory = docker("inspect", "--format", "{{.HostConfig.Memory}}", serving);
          return [
            token === env.PAY_TOKEN ? "" : `PAY_TOKEN ${token}`,
            (await ask(env.SERVICE_API_KEY!, "/jobs")) ? "" : "the key",
            Number(memory) === Number.parseInt(String(flags.memory), 10) * 2 ** 20 ? "" : `memory ${memory}`,
          ].filter(Boolean);
        };
        const planOf = async (from: Checkout, wanted: Wanted) => {
          const deployment = await from.open("plan", wanted);
          return prepare(deployment, { readOnly: true }).finally(() => deployment.close());
        };
        const mine = checkout();
        let wanted = FIRST;
        let count = 0;
        await mine.up(wanted);
        wanted = change(wanted, ++count);
        const { lines } = await run(mine, wanted, 0);
        expect(lines).toBeGreaterThan(8);

        const failures: string[] = [];
        const jobs: string[] = [];
        const kills = shareOf(
          Array.from({ length: 2 * lines }, (_, index) => ({
            killAt: (index % lines) + 1,
            elsewhere: index >= lines,
          })),
          SHARES,
        );
        for (const { killAt, elsewhere } of kills) {
          const told = `${killAt}${elsewhere ? " elsewhere" : ""}`;
          const before = wanted;
          wanted = change(before, ++count);
          const killed = elsewhere ? checkout() : mine;
          const next = elsewhere ? checkout() : mine;
          const { signal } = await run(killed, wanted, killAt);
          if (signal !== "SIGKILL") failures.push(`${told}: ended with ${signal}`);
          // While it is replaced, it takes no jobs.
          const id = `after-${count}`;
          const start = { job_context: jobContext(id), job_fields: {} };
          for (const { env } of [before, wanted])
            if (!jobs.includes(id) && (await ask(env.SERVICE_API_KEY!, "/agents/asker/jobs", start)))
              jobs.push(id);
          const planned = await planOf(next, wanted);
          if (!planned.changes)
            for (const one of await missing(wanted))
              failures.push(`${told}: nothing is planned; it has ${one}`);
          await next.up(wanted).catch((error) => failures.push(`${told}: ${error}`));
          for (const one of await missing(wanted)) failures.push(`${told}: another value serves: ${one}`);
          if ((await planOf(next, wanted)).changes) failures.push(`${told}: not up to date after it`);
          for (const one of jobs)
            await expect
              .poll(async () => (await ask(wanted.env.SERVICE_API_KEY!, `/jobs/${one}`))?.status)
              .toBe("awaiting")
              .catch(() => failures.push(`${told}: job ${one} has vanished`));
          if (at.running().length !== 1) failures.push(`${told}: ${at.running()}`);
          for (const one of leftovers(at.serviceName, next.cwd)) failures.push(`${told}: ${one} is left`);
        }

        expect(failures).toEqual([]);
        expect(jobs.length).toBeGreaterThan(0);
      },
      limitOf(600_000, SHARES),
    );
  });
