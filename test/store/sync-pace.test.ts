import { describe, expect, it } from "vitest";
import { SyncPace } from "../../src/core/store/json/sync-pace.ts";

describe("the pace of a disk", () => {
  it("is not quick before anything was measured", () => {
    expect(new SyncPace().isQuick).toBe(false);
  });

  it("stays quick through a slow sync now and then", () => {
    const pace = paceAfter([0.3, 0.3, 0.3, 2, 0.3, 0.3]);

    expect(pace.isQuick).toBe(true);
  });

  it("is not quick once syncs are slow, and is again once they are handed over and back in little time", () => {
    const pace = paceAfter([0.3, 5, 5, 5]);
    expect(pace.isQuick).toBe(false);

    for (let sync = 0; sync < 8; sync++) pace.note(1.2, { onTheSpot: false });
    expect(pace.isQuick).toBe(true);
  });

  it("is not quick where handing over takes long", () => {
    const pace = new SyncPace();
    for (let sync = 0; sync < 8; sync++) pace.note(8, { onTheSpot: false });

    expect(pace.isQuick).toBe(false);
  });
});

function paceAfter(syncs: readonly number[]): SyncPace {
  const pace = new SyncPace();
  for (const milliseconds of syncs) pace.note(milliseconds, { onTheSpot: true });
  return pace;
}
