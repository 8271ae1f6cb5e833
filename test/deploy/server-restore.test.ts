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
import { docker } from "./_local-project.ts";
import { runKilled } from "./server/run-killed.ts";
import { KEY, type site } from "./server/site.ts";
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

/** Names of what is in the volume of a service that runs. */
function volumeOf(at: Awaited<ReturnType<typeof site>>): string[] {
  return docker("exec", at.running()[0]!, "ls", "-A", "/data").split("\n");
}

const FORMER = { good: "awaiting", newer: "awaiting" };

describe("a restore after which the service is not healthy", () => {
  for (const kind of ["files", "a database"] as const)
    it(
      `gives a service with ${kind} its former jobs back, also where it is killed at a line of its journal`,
      async () => {
        const { at, mine, image, query } = await withDatabase(sshd.config);
        const own = kind === "files" ? {} : { flags: { postgres: image } };
        const place = kind === "files" ? "/data/" : "the database ";
        /** What a restore has there until it has ended. */
        const left = () =>
          kind === "files"
            ? volumeOf(at).filter((name) =>
                /^(former|leaving|returning|\.restore|\.leaving|INCOMPLETE)/.test(name),
              )
            : query("select datname from pg_database where datname like 'former-%'")
                .split("\n")
                .filter(Boolean);
        const { run, cwd } = await refusing(at, (refuses) => {
          mine.step("one", { REFUSES: refuses });
          return mine.up({ ...own, env: KEYS });
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
        expect(refused.err).toMatch(/former jobs again, and is healthy; /);
        expect(refused.err).toContain(`${place}unhealthy-`);
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
          for (const name of left()) failures.push(`${killAt}: ${name} is left`);
        }
        // Of one that would have been healthy, either the former jobs or those of the backup are there after the next.
        await restoreKilled("well", steps.indexOf("restore.start") + 2);
        const last = await run("restore --from well --yes");
        await at.expectStatuses({ good: "awaiting" });

        expect(failures).toEqual([]);
        expect(steps).toContain("restore.undo");
        expect(last.code).toBe(0);
        expect(last.out).toContain("is healthy");
        expect(last.out).toContain(`${place}replaced-`);
        expect(left()).toEqual([]);
      },
      limitOf(900_000, SHARES),
    );
});
