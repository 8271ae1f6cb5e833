// @alone
// @long
// @losses
import { rmSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { diskFolder } from "../_once.ts";
import { checkWhatIsLeft, Writer } from "./crash-process.ts";

const ROUNDS = Number(process.env.SVC_KILL_ROUNDS ?? 12);

describe("a process that is killed while it writes", () => {
  const dataDir = diskFolder("store-kill-");
  afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

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
