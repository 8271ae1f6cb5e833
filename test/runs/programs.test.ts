// @long
// @losses
import { expect, test } from "vitest";
import type { StoredJob } from "../../src/core/models/job.ts";
import { Keyring } from "../../src/core/store/encryption/keyring.ts";
import type { Store } from "../../src/core/store/store.ts";
import { newKey } from "../store/_key.ts";
import { RecordedStore } from "./_lives.ts";
import type { Node } from "./_program.ts";
import { live, type Trial, tryPrograms } from "./_program-deaths.ts";

const PROGRAMS = Number(process.env.SVC_PROGRAMS ?? 500);
/** Others each day; a seed that is given repeats its programs. */
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Date.now() / 86_400_000) * 1_000_000);
/** The check of a commit interrupts each program at every third line, from one of the first three; else at each line. */
const EVERY = process.env.SVC_SHARE ? 3 : 1;

/** Programs from which on what some of them do is a part of all. */
const ENOUGH = 50;

/** A moment in a life, at which it could have died. */
interface Moment {
  /** Length of the job's log. */
  readonly line: number;
  /** What is left of a life that died then: a store, and what its handler had seen. */
  die(): { openStore: () => Promise<Store>; one: Trial; failed: Set<string>; clock: () => Date };
}

/** Runs a program to its end. */
async function record(
  program: Node,
  options: { strictSteps: boolean; saysRead: boolean; suspendAfter: number | undefined },
  keys: Keyring | undefined,
): Promise<{ end: StoredJob; moments: Moment[] }> {
  const moments: Moment[] = [];
  const failed = new Set<string>();
  const recorded = new RecordedStore(keys);
  const store = await recorded.open((writes, line) => {
    const had = failed.size;
    const at = Date.now();
    const runs = trial.witnesses.map(({ seen, did }) => ({ seen: seen.length, did: did.length }));
    const die: Moment["die"] = () => {
      const since = Date.now() - at;
      const witnesses = runs.map(({ seen, did }, n) => {
        const witness = trial.witnesses[n]!;
        return { ...witness, seen: witness.seen.slice(0, seen), did: witness.did.slice(0, did) };
      });
      return {
        openStore: () => recorded.after(writes),
        one: { life: trial.life, witnesses },
        failed: new Set([...failed].slice(0, had)),
        // What it slept for is not over.
        clock: () => new Date(Date.now() - since),
      };
    };
    moments.push({ line, die });
  });
  const trial = live(program, store, { ...options, failed });
  await trial.life.start();
  const end = (await trial.life.ended())!;
  return { end, moments };
}

const undisturbed = "interrupted at lines of their logs and suspended at their waits, end as undisturbed";
/** With encryption, a tenth of those: what is stored is the same. */
const STORES = [
  { what: "programs", count: PROGRAMS, keys: undefined },
  { what: "programs of an encrypted store", count: Math.ceil(PROGRAMS / 10), keys: new Keyring([newKey()]) },
];

test.each(STORES)(
  `$count $what, ${undisturbed}`,
  async ({ count, keys }) => {
    const seeds = { first: SEED, count, every: EVERY, atOnce: 8 };
    const found = await tryPrograms(seeds, async (program, options) => {
      // From this run each death is taken: what the store and the handler had at one of the writes of each line.
      const { end, moments } = await record(program, options, keys);
      const dieAt = async (line: number, random: (most: number) => number) => {
        const those = moments.filter((moment) => moment.line === line);
        // A write may add several lines.
        const moment = those[random(those.length)] ?? moments.find((later) => later.line > line)!;
        const { openStore, ...left } = moment.die();
        const store = openStore();
        return { ...left, openAfter: () => store };
      };
      return { end, lines: moments.at(-1)!.line, dieAt };
    });

    if (process.env.SVC_PROGRAMS) console.log(found);
    expect(found.problems).toEqual([]);
    expect(found.deaths).toBeGreaterThan(count);
    // Of few programs, hardly one may wait, and those that wait may be the ones that are refused.
    if (count < ENOUGH) return;
    expect(found.suspensions).toBeGreaterThan(count / 2);
    // Most must be of use.
    expect(found.refused).toBeLessThan(count / 5);
  },
  120_000 + 3_000 * PROGRAMS,
);
