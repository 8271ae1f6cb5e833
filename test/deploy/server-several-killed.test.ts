// @long
// @losses
import { afterAll, beforeAll, expect } from "vitest";
import { newRsaKey } from "../../src/deploy/secrets.ts";
import server from "../../src/plugins/platforms/server/platform.ts";
import { bundleChild } from "../_bundle.ts";
import { requirement } from "../_require.ts";
import { limitOf, shareOf } from "../_share.ts";
import { jobContext } from "../runs/_jobs.ts";
import { svc } from "./_cli.ts";
import { writeAll } from "./_fixture.ts";
import { docker, freePort } from "./_local-project.ts";
import { leftovers } from "./server/leftovers.ts";
import { type Machines, sharedDatabase, startMachines } from "./server/machines.ts";
import { runKilled } from "./server/run-killed.ts";
import { KEY, site } from "./server/site.ts";
import { writeManifest } from "./server/with-database.ts";

const { describe, it, met } = requirement("docker", "sshd", "engine", "postgres");
const SHARES = 32;

let machines: Machines;
beforeAll(async () => {
  if (met) machines = await startMachines();
});
afterAll(() => machines?.close());

/** A service that runs on both machines, on one database. */
async function onBoth() {
  const port = await freePort();
  const at = await site(machines.config, port);
  const secrets = {
    ...{ SERVICE_API_KEY: KEY, SERVICE_RSA_PRIVATE_KEY: newRsaKey() },
    SERVICE_DATABASE_URL: await sharedDatabase(),
  };
  const engines = [
    { host: "one", url: `http://127.0.0.1:${port}`, run: docker },
    { host: "two", url: `http://127.0.0.2:${port}`, run: machines.engine.docker },
  ];
  /** A checkout with this step in its settings. */
  const checkout = () => {
    const { cwd } = at.checkout();
    writeManifest(cwd, at.name);
    const write = (step: string) =>
      writeAll(cwd, {
        "deploy.yaml": [
          `platform: server\nname: ${at.name}\nhost: one, two\nport: ${port}\nsshConfig: ${machines.config}`,
          `publicUrl: https://agents.example\nvariables: { STEP: ${step} }\n`,
        ].join("\n"),
      });
    const up = (more = "") =>
      svc({ cwd } as never, `up --yes --no-check ${more}`, {
        env: { PATH: process.env.PATH, HOME: process.env.HOME, ...secrets },
        platforms: { server: async () => ({ default: server as never }) },
      });
    return { cwd, write, up };
  };
  const ask = async (url: string, path: string, body?: unknown) => {
    const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const headers = { "x-api-key": KEY, "content-type": "application/json" };
    const response = await fetch(`${url}${path}`, { headers, ...sent }).catch(() => undefined);
    return response?.ok ? ((await response.json()) as Record<string, unknown>) : undefined;
  };
  const mine = checkout();
  mine.write("first");
  for (const [index, { host }] of engines.entries())
    expect(await mine.up(`--host ${host} --bind 127.0.0.${index + 1}`)).toMatchObject({ code: 0 });
  /** What is not as one deployment to both leaves it: each serves the step, once. */
  const wrong = (step: string, cwds: readonly string[]): string[] =>
    engines.flatMap(({ host, run }) => {
      const names = run("ps", "--format", "{{.Names}}", "--filter", `name=${at.serviceName}.`)
        .split("\n")
        .filter(Boolean);
      const found = names.map((name) => run("exec", name, "printenv", "STEP"));
      return [
        ...(found.join() === step ? [] : [`${host} serves ${found.join() || "nothing"}`]),
        ...cwds.flatMap((cwd) =>
          leftovers(at.serviceName, cwd, { host, run }).map((one) => `${host}: ${one}`),
        ),
      ];
    });
  return { at, port, secrets, engines, mine, checkout, ask, wrong };
}

describe("a release to several servers", () => {
  it(
    "that is killed at a line of its journal is completed there and in another checkout: all serve it, and no job is lost",
    async () => {
      const { at, port, secrets, engines, mine, checkout, ask, wrong } = await onBoth();
      const child = await bundleChild(new URL("server/child.ts", import.meta.url));
      const run = (killAt: number) =>
        runKilled(child, { name: at.name, port, cwd: mine.cwd, flags: {}, env: secrets, killAt });
      mine.write("second");
      const { lines } = await run(0);
      expect(lines).toBeGreaterThan(10);
      expect(wrong("second", [mine.cwd])).toEqual([]);

      const failures: string[] = [];
      const jobs: string[] = [];
      const kills = shareOf(
        [false, true].flatMap((elsewhere) =>
          Array.from({ length: lines }, (_, index) => ({ killAt: index + 1, elsewhere })),
        ),
        SHARES,
      );
      for (const { killAt, elsewhere } of kills) {
        const told = `${killAt}${elsewhere ? "-elsewhere" : ""}`;
        mine.write(`killed-${told}`);
        const { signal } = await run(killAt);
        if (signal !== "SIGKILL") failures.push(`${told}: ended with ${signal}`);
        // Each of them is replaced for some seconds, never both at the same time.
        const id = `after-${told}`;
        const start = { job_context: jobContext(id), job_fields: {} };
        const started = await Promise.all(engines.map(({ url }) => ask(url, "/agents/asker/jobs", start)));
        if (started.some(Boolean)) jobs.push(id);
        else failures.push(`${told}: none of them responds`);
        const next = elsewhere ? checkout() : mine;
        next.write(`killed-${told}`);
        const ran = await next.up();
        if (ran.code !== 0) failures.push(`${told}: ${ran.err}`);
        const again = await next.up();
        if (again.out.match(/there was nothing to deploy/g)?.length !== 2)
          failures.push(`${told}: not up to date after it`);
        for (const one of wrong(`killed-${told}`, [next.cwd])) failures.push(`${told}: ${one}`);
        for (const job of jobs)
          for (const { host, url } of engines)
            await expect
              .poll(async () => (await ask(url, `/jobs/${job}`))?.status, { timeout: 60_000 })
              .toBe("awaiting")
              .catch(() => failures.push(`${told}: job ${job} has vanished on ${host}`));
      }

      expect(failures).toEqual([]);
      expect(jobs.length).toBeGreaterThan(0);
    },
    limitOf(900_000, SHARES),
  );

  it("that two people start at the same time is made by one; the other is refused by name, and then finishes", async () => {
    const { mine, checkout, wrong } = await onBoth();
    const theirs = checkout();
    mine.write("mine");
    theirs.write("theirs");

    const ran = await Promise.all([mine.up(), theirs.up()]);
    const made = ran.findIndex(({ code }) => code === 0);
    const between = wrong(["mine", "theirs"][made]!, []);
    const refused = [mine, theirs][1 - made]!;
    const repeated = await refused.up();

    expect(ran.map(({ code }) => code).sort()).toEqual([0, 6]);
    expect(ran[1 - made]!.err).toMatch(/svc deploy up.*since/s);
    expect(between).toEqual([]);
    expect(repeated).toMatchObject({ code: 0 });
    expect(wrong(["mine", "theirs"][1 - made]!, [mine.cwd, theirs.cwd])).toEqual([]);
  }, 600_000);
});
