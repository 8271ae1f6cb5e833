import * as main from "agent-control-service";
import * as testing from "agent-control-service/testing";
import { describe, expect, it } from "vitest";

/** What a module exports at run time, but for the tokens of a service's parts. */
function names(module: Record<string, unknown>): string[] {
  return Object.keys(module)
    .filter((name) => typeof module[name] !== "symbol")
    .sort();
}

// A name that is taken away or changed breaks somebody's program: this list is changed on purpose only.
describe("the package exports", () => {
  it("what people build services with", () => {
    expect(names(main)).toEqual([
      "DeliveryError",
      "DeployError",
      "OptionsError",
      "PluginError",
      "ServiceError",
      "admin",
      "createCommand",
      "createReleases",
      "createServer",
      "createToken",
      "createVault",
      "defineAgent",
      "definePlatform",
      "defineRoute",
      "docs",
      "events",
      "html",
      "isDuration",
      "specChanges",
      "storeDriver",
      "telemetry",
      "webhooks",
    ]);
  });

  it("what they test them with", () => {
    expect(names(testing)).toEqual([
      "createDeployTools",
      "createMemoryStore",
      "platformContract",
      "specChanges",
      "storeContract",
      "testServer",
    ]);
  });

  it("a token for every part of a service, by its name", () => {
    const tokens = Object.entries(main).filter(([, value]) => typeof value === "symbol");

    expect(tokens.length).toBeGreaterThan(15);
    for (const [name] of tokens) expect(name).toMatch(/^[A-Z][A-Z_]+$/);
  });
});
