import { expect, it } from "vitest";
import type { Telemetry } from "../../src/core/models/telemetry.ts";
import { TelemetryBuffer } from "../../src/plugins/telemetry/telemetry-buffer.ts";

const piece: Telemetry = {
  agentId: "a",
  type: "custom",
  category: "business",
  severity: "info",
  details: {},
};

it("a hanging control system does not delay the end of the service", async () => {
  const buffer = new TelemetryBuffer({
    size: 10,
    interval: 0,
    closeGrace: 10,
    send: () => new Promise(() => {}),
    onFailure: () => {},
  });
  for (let n = 0; n < 6; n++) buffer.add(piece);

  await buffer.close();

  // Four are under way: whether they arrived is not known.
  expect(buffer.dropped).toBe(2);
});
