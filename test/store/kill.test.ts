// @alone
// @long
// @losses
import { rmSync } from "node:fs";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { diskFolder } from "../_once.ts";
import { newKey } from "./_key.ts";
import { checkWhatIsLeft, Writer } from "./crash-process.ts";

const ROUNDS = Number(process.env.SVC_KILL_ROUNDS ?? 12);
const SEALED = Math.ceil(ROUNDS / 3);

describe("a process that is killed while it writes", () => {
  const dataDir = diskFolder("store-kill-");
  afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

  it(`${SEALED} rounds of kill -9 lose nothing of an encrypted store and its files`, async () => {
    const sealed = diskFolder("store-kill-sealed-");
    onTestFinished(() => rmSync(sealed, { recursive: true, force: true }));
    const env = { CRASH_KEY: newKey(), CRASH_FILES: "1" };
    for (let round = 0; round < SEALED; round++) {
      const writer = await Writer.start(sealed, env);
      const enough = 1 + ((round * 37) % 100);
      await writer.until(() => writer.acknowledgements >= enough);
      await writer.kill();
      await checkWhatIsLeft(sealed, writer);
    }
  }, 600_000);

  it(`${ROUNDS} rounds of kill -9 lose nothing that was acknowledged and tear nothing`, async () => {
    let acknowledgements = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const writer = await Writer.start(dataDir);
      const enough = 1 + ((round * 37) % 300);
      await writer.until(() => writer.acknowledgements >= enough);
      await writer.kill();
      await checkWhatIsLeft(dataDir, writer);
      acknowledgements += writer.acknowledgements;
    }
    console.log(`${ROUNDS} rounds of kill -9: ${acknowledgements} acknowledged writes, all there`);
    expect(acknowledgements).toBeGreaterThan(ROUNDS);
  }, 600_000);
});
