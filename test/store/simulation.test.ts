// @alone
// @long
// @losses
import { describe, expect, it } from "vitest";
import type { Mutant } from "./sim-disk.ts";
import { simulate, simulateFlip } from "./sim-run.ts";
import { simulateLoss, simulateTakeover } from "./sim-takeover.ts";

const SEEDS = Number(process.env.SVC_SIM_SEEDS ?? 1000);
const FIRST = Number(process.env.SVC_SIM_FIRST ?? 1);
/** Each has two lives of many turns. */
const TAKE_SEEDS = Math.ceil(SEEDS / 5);
const FLIP_SEEDS = Math.ceil(SEEDS / 100);

describe("a simulated disk that crashes, fails and loses what was not synced", () => {
  it(`${SEEDS} seeds: nothing acknowledged is lost, torn or resurrected, nobody waits forever`, async () => {
    const total = { crashes: 0, writes: 0, refusals: 0, compactions: 0, checkpoints: 0, shortened: 0 };
    for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
      const outcome = await simulate(seed).catch((cause: Error) => {
        throw new Error(`seed ${seed}: ${cause.message}`, { cause });
      });
      total.crashes += outcome.crashes;
      total.writes += outcome.writes;
      total.refusals += outcome.refusals;
      total.compactions += outcome.compactions;
      total.checkpoints += outcome.checkpoints;
      total.shortened += outcome.shortened;
    }
    console.log(
      `${SEEDS} seeds: ${total.crashes} crashes, ${total.writes} writes, ${total.refusals} refusals, ${total.compactions} compactions, ${total.checkpoints} checkpoints, ${total.shortened} starts with one`,
    );
    expect(total.crashes).toBeGreaterThan(SEEDS);
    expect(total.compactions).toBeGreaterThan(SEEDS / 2);
    expect(total.checkpoints).toBeGreaterThan(SEEDS / 20);
    expect(total.shortened).toBeGreaterThan(SEEDS / 20);
  }, 1_200_000);

  it("a flipped bit anywhere is refused with file and byte, or harmless", async () => {
    const total = { refused: 0, harmless: 0 };
    for (let seed = FIRST; seed < FIRST + FLIP_SEEDS; seed++) {
      const outcome = await simulateFlip(seed, 50).catch((cause: Error) => {
        throw new Error(`seed ${seed}: ${cause.message}`, { cause });
      });
      total.refused += outcome.refused;
      total.harmless += outcome.harmless;
    }
    console.log(
      `${total.refused + total.harmless} flips: ${total.refused} refused, ${total.harmless} harmless`,
    );
    expect(total.refused).toBeGreaterThan(total.harmless);
  }, 1_200_000);
});

describe("a folder that is taken over, or that goes away", () => {
  it(`${TAKE_SEEDS} seeds: the second host takes it over with everything that the first acknowledged, and the first stops`, async () => {
    const total = await sum(simulateTakeover);
    console.log(`${TAKE_SEEDS} takeovers: ${total.before} writes before, ${total.after} after`);
    expect(Math.min(total.before, total.after)).toBeGreaterThan(TAKE_SEEDS);
  }, 1_200_000);

  it(`${TAKE_SEEDS} seeds: nothing is acknowledged without it, and everything acknowledged is there when it comes back`, async () => {
    const total = await sum(simulateLoss);
    console.log(`${TAKE_SEEDS} losses: ${total.before} writes before, ${total.after} after`);
    expect(total.before).toBeGreaterThan(TAKE_SEEDS);
    expect(total.after).toBeGreaterThan(TAKE_SEEDS / 4);
  }, 1_200_000);

  it.each([
    ["taken", simulateTakeover],
    ["gone", simulateLoss],
  ])("a store that does not check whether its folder is %s is found out", async (_, run) => {
    let found = 0;
    for (let seed = 1; seed <= 20; seed++) await run(seed, "stale").catch(() => found++);
    expect(found).toBeGreaterThan(0);
  });

  async function sum(run: typeof simulateTakeover): ReturnType<typeof simulateTakeover> {
    const total = { before: 0, after: 0 };
    for (let seed = FIRST; seed < FIRST + TAKE_SEEDS; seed++) {
      const outcome = await run(seed).catch((cause: Error) => {
        throw new Error(`seed ${seed}: ${cause.message}`, { cause });
      });
      total.before += outcome.before;
      total.after += outcome.after;
    }
    return total;
  }
});

describe("the simulation finds", () => {
  const mutants: [Mutant, string][] = [
    ["nosync", "a journal that is not synced"],
    ["nosnapsync", "compacted files that are not synced"],
    ["nodirsync", "a folder that is not synced"],
    ["swallow", "a failed sync that is taken for a success"],
    ["retry", "a failed sync that is tried again"],
    ["lying", "a disk that only says that it synced"],
  ];
  for (const [mutant, description] of mutants) {
    it(description, async () => {
      let found: string | undefined;
      for (let seed = 1; seed <= 1000 && found === undefined; seed++) {
        await simulate(seed, mutant).catch((error: Error) => {
          found = `seed ${seed}: ${error.message}`;
        });
      }
      expect(found).toBeDefined();
    });
  }
});
