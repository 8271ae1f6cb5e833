// @losses
import { expect, test } from "vitest";
import { bury, oneStore } from "./_lives.ts";
import { live, type Remains, tryPrograms } from "./_program-deaths.ts";

/**
 * A hundredth of those whose deaths are recorded: each life is one, and on Postgres each has a store of its own. A few, as the
 * shortest ones die nowhere.
 */
const PROGRAMS = Math.max(4, Math.ceil(Number(process.env.SVC_PROGRAMS ?? 500) / 100));
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Date.now() / 86_400_000) * 1_000_000);
const EVERY = process.env.SVC_SHARE ? 4 : 2;
const SHARED = { look: 200 };

test(
  `${PROGRAMS} programs, which other instances take over at lines of their logs, end as undisturbed`,
  async () => {
    const seeds = { first: SEED, count: PROGRAMS, every: EVERY, atOnce: 4 };
    const found = await tryPrograms(seeds, async (program, options, undisturbed) => {
      const dieAt = async (diesAt: number): Promise<Remains | undefined> => {
        const { open, close } = await oneStore();
        const failed = new Set<string>();
        const one = live(program, await open(), { ...options, diesAt, failed, shared: SHARED });
        const remains: Remains = {
          ...{ one, failed, shared: SHARED },
          openAfter: async (last) => {
            const store = await open();
            await bury(last.life, store);
            return store;
          },
          close: async (lives) => {
            // Those that are dead do not end.
            const ends = lives.map(({ life }) => Promise.race([life.runner.close(0), life.died]));
            await Promise.all(ends);
            for (const { life } of lives) life.die();
            await close();
          },
        };
        await one.life.resume();
        await Promise.race([one.life.start(), one.life.died]);
        if ((await one.life.ended()) === undefined) return remains;
        await remains.close!([one]);
        return undefined;
      };
      return { lines: (await undisturbed.life.entries()).length, dieAt };
    });

    expect(found.problems).toEqual([]);
    expect(found.deaths).toBeGreaterThan(PROGRAMS);
    if (process.env.SVC_PROGRAMS) console.log(found);
  },
  120_000 + 20_000 * PROGRAMS,
);
