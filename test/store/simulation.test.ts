import { describe, expect, it } from "vitest";
import type { Mutant } from "./sim-disk.ts";
import { simulate, simulateFlip } from "./sim-run.ts";

const SEEDS = Number(process.env.SVC_SIM_SEEDS ?? 1000);
const FIRST = Number(process.env.SVC_SIM_FIRST ?? 1);
const FLIP_SEEDS = Math.ceil(SEEDS / 100);

describe("a simulated disk that crashes, fails and loses what was not synced", () => {
  it(`${SEEDS} seeds: nothing acknowledged is lost, torn or resurrected, nobody waits for ever`, async () => {
    const total = { crashes: 0, writes: 0, refusals: 0, compactions: 0 };
    for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
      const outcome = await simulate(seed).catch((cause: Error) => {
        throw new Error(`seed ${seed}: ${cause.message}`, { cause });
      });
      total.crashes += outcome.crashes;
      total.writes += outcome.writes;
      total.refusals += outcome.refusals;
      total.compactions += outcome.compactions;
    }
    console.log(
      `${SEEDS} seeds: ${total.crashes} crashes, ${total.writes} writes, ${total.refusals} refusals, ${total.compactions} compactions`,
    );
    expect(total.crashes).toBeGreaterThan(SEEDS);
    expect(total.compactions).toBeGreaterThan(SEEDS / 2);
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

describe("the simulation finds what it is there to find", () => {
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
    }, 120_000);
  }
});
