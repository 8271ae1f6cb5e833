// @long
// @losses
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { restoreStore } from "../../src/core/store/maintenance.ts";
import { newRsaKey } from "../../src/deploy/secrets.ts";
import { bundleChild } from "../_bundle.ts";
import { requirement } from "../_require.ts";
import { limitOf, shareOf } from "../_share.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { docker, freePort } from "./_local-project.ts";
import { runKilled } from "./server/run-killed.ts";
import { KEY, site } from "./server/site.ts";
import { withDatabase } from "./server/with-database.ts";

const { describe, it, met } = requirement("docker", "sshd", "postgres");
const SHARES = 8;
const KEYS = { SERVICE_API_KEY: KEY, SERVICE_RSA_PRIVATE_KEY: newRsaKey() };

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

/** A service that refuses the job `bad`, with the job `good`; one backup has both, the other `good` alone. */
async function refusing(at: Awaited<ReturnType<typeof site>>, up: (refuses: string) => Promise<unknown>) {
  const { run, cwd } = at.elsewhere();
  await up("");
  await at.start("good");
  await at.expectStatuses({ good: "awaiting" });
  expect(await run("backup --to well")).toMatchObject({ code: 0 });
  await at.start("bad");
  await at.expectStatuses({ good: "awaiting", bad: "awaiting" });
  expect(await run("backup --to ill")).toMatchObject({ code: 0 });
  expect(await run("restore --from well --yes")).toMatchObject({ code: 0 });
  await at.start("newer");
  await up("bad");
  await at.expectStatuses({ good: "awaiting", newer: "awaiting" });
  return { run, cwd };
}

const FORMER = { good: "awaiting", newer: "awaiting" };

describe("a restore after which the service is not healthy", () => {
  it("gives a service with files its former jobs back, and says where those of the backup are", async () => {
    const at = await site(sshd.config, await freePort());
    const mine = at.checkout();
    const { run } = await refusing(at, (refuses) => {
      mine.step("one", { REFUSES: refuses });
      return mine.up();
    });

    const refused = await run("restore --from ill --yes");

    await at.expectStatuses(FORMER);
    const [container = ""] = at.running();
    expect(refused.code).toBe(1);
    expect(refused.err).toMatch(/did not become healthy with the backup/);
    expect(refused.err).toMatch(/former jobs again, and is healthy; .*\/data\/unhealthy-\S+ of its volume/s);
    expect(docker("exec", container, "sh", "-c", "ls -a /data")).not.toMatch(/INCOMPLETE|\.restore/);
    expect(await run("restore --from well --yes")).toMatchObject({ code: 0 });
    await at.expectStatuses({ good: "awaiting" });
  }, 400_000);

  it(
    "gives a service with a database its former jobs back, also where it is killed at a line of its journal",
    async () => {
      const { at, mine, image, query } = await withDatabase(sshd.config);
      const { run, cwd } = await refusing(at, (refuses) => {
        mine.step("one", { REFUSES: refuses });
        return mine.up({ flags: { postgres: image }, env: KEYS });
      });
      const child = await bundleChild(new URL("server/child.ts", import.meta.url));
      const flags = { host: "server", sshConfig: sshd.config, bind: "127.0.0.1" };
      const port = Number(new URL(at.url).port);
      const restoreKilled = async (from: string, killAt: number) => {
        const restore = join(cwd, `${from}-checked`);
        return runKilled(child, { name: at.name, port, cwd: mine.cwd, flags, env: KEYS, killAt, restore });
      };
      for (const from of ["well", "ill"]) await restoreStore(join(cwd, from), join(cwd, `${from}-checked`));

      const refused = await run("restore --from ill --yes");
      await at.expectStatuses(FORMER);
      expect(refused.code).toBe(1);
      expect(refused.err).toMatch(/former jobs again, and is healthy; .*the database unhealthy-/s);
      const { steps } = await restoreKilled("ill", 0);
      await at.expectStatuses(FORMER);

      const failures: string[] = [];
      for (const killAt of shareOf(
        [...steps.keys()].map((index) => index + 1),
        SHARES,
      )) {
        const { signal } = await restoreKilled("ill", killAt);
        if (signal !== "SIGKILL") failures.push(`${killAt}: ended with ${signal}`);
        const again = await run("restore --from ill --yes");
        if (!again.err.includes("former jobs again, and is healthy"))
          failures.push(`${killAt}: ${again.err}`);
        await at.expectStatuses(FORMER).catch((error) => failures.push(`${killAt}: ${error.message}`));
        const names = query("select datname from pg_database where datname like 'former-%'");
        if (names !== "") failures.push(`${killAt}: ${names} is left`);
      }
      // Of one that would have been healthy, either the former jobs or those of the backup are there after the next.
      await restoreKilled("well", steps.indexOf("restore.start") + 2);
      const last = await run("restore --from well --yes");
      await at.expectStatuses({ good: "awaiting" });

      expect(failures).toEqual([]);
      expect(steps).toContain("restore.undo");
      expect(last).toMatchObject({
        code: 0,
        out: expect.stringMatching(/is healthy.*the database replaced-/s),
      });
      expect(query("select datname from pg_database where datname like 'former-%'")).toBe("");
    },
    limitOf(900_000, SHARES),
  );
});
