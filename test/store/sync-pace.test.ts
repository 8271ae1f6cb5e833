import { describe, expect, it } from "vitest";
import { SyncPace } from "../../src/core/store/json/sync-pace.ts";

describe("the pace of a disk", () => {
  it("is not fast before anything was measured", () => {
    expect(new SyncPace().isQuick).toBe(false);
  });

  it("stays fast despite an occasional slow sync", () => {
    const pace = paceAfter([0.3, 0.3, 0.3, 2, 0.3, 0.3]);

    expect(pace.isQuick).toBe(true);
  });

  it("is not fast once syncs are slow, and is fast again once passing them to the thread and back takes little time", () => {
    const pace = paceAfter([0.3, 5, 5, 5]);
    expect(pace.isQuick).toBe(false);

    for (let sync = 0; sync < 8; sync++) pace.note(1.2, { onTheSpot: false });
    expect(pace.isQuick).toBe(true);
  });

  it("is not fast if passing a sync to the thread takes long", () => {
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
