import { describe, expect, it } from "vitest";
import { EXPORTS, entriesOf, loadEntry } from "./_entries.ts";

/** What each entry exports at run time, except for the tokens of a service's parts. */
const ENTRIES: Readonly<Record<string, readonly string[]>> = {
  ".": [
    "AgentError",
    "ChildFailedError",
    "EventTimeoutError",
    "NonRetryableError",
    "NondeterminismError",
    "OptionsError",
    "QuestionExpiredError",
    "RetryAfterError",
    "RunEndedError",
    "ServiceError",
    "StepFailedError",
    "admin",
    "createServer",
    "defineAgent",
    "defineChat",
    "docs",
    "events",
    "file",
    "isDuration",
    "oidc",
    "prices",
    "proxyAuth",
    "telemetry",
    "webhooks",
  ],
  "./plugin": ["DeliveryError", "createToken", "defineCommand", "definePlugin", "defineRoute", "html"],
  "./store": ["FencedError", "StoreConflictError", "StoreMissingError", "storeDriver"],
  "./storage": ["StorageFailure", "azureDriver", "fileDriver", "gcsDriver", "s3Driver", "storageFromUrl"],
  "./deploy": [
    "DeployError",
    "createCommand",
    "createReleases",
    "createSecretStore",
    "definePlatform",
    "specChanges",
  ],
  "./testing": [
    "crashTest",
    "createDeployTools",
    "createMemoryStore",
    "modelServer",
    "platformContract",
    "storeContract",
    "testServer",
  ],
  "./ai": ["durable", "durableNode", "durableTools", "runGraph"],
  "./mcp": ["mcp", "mcpTools"],
  "./a2a": ["a2a"],
  "./agui": ["agUi"],
  "./h3": [],
  "./postgres": ["postgres"],
  "./client": ["ClientError", "JobFailedError", "client"],
  "./client/react": ["useChat", "useJob"],
};

/** The parts of a service that plugins get. */
const TOKENS = "ADMIN CASES EVENTS GATE JOBS OPTIONS ROUTER RUNNER SESSIONS STORE STREAMS".split(" ");

/** Tokens by the entry that has them. */
const WITH_TOKENS = ["./plugin", "./h3"];

// A name that is taken away or changed breaks somebody's program: these lists are changed on purpose only.
describe("the package exports", () => {
  it("are one entry per audience, and no other file", () => {
    const entries = entriesOf();

    expect(entries.sort()).toEqual(Object.keys(ENTRIES).sort());
    for (const entry of entries) {
      const file = entry === "." ? "index" : entry.slice(2);
      expect(EXPORTS[entry]).toEqual({
        types: `./dist/${file}.d.ts`,
        default: `./dist/${file}.js`,
      });
    }
  });

  it.each(Object.entries(ENTRIES))("have in %s what its audience uses", async (entry, names) => {
    const module = await loadEntry(entry);

    const values = Object.keys(module).filter((name) => typeof module[name] !== "symbol");

    expect(values.sort()).toEqual(names);
  });

  it("have each name in one entry", async () => {
    const modules = await Promise.all(Object.keys(ENTRIES).map(loadEntry));
    const names = modules.flatMap((module) => Object.keys(module));

    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
  });

  it("have tokens for the parts of a service that plugins use, and no others", async () => {
    for (const entry of Object.keys(ENTRIES)) {
      const tokens = Object.entries(await loadEntry(entry)).filter(([, value]) => typeof value === "symbol");

      if (!WITH_TOKENS.includes(entry)) expect(tokens).toEqual([]);
      for (const [name] of tokens) expect(name).toMatch(/^[A-Z][A-Z0-9_]+$/);
    }
    const tokens = Object.entries(await loadEntry("./plugin")).filter(
      ([, value]) => typeof value === "symbol",
    );
    expect(tokens.map(([name]) => name).sort()).toEqual(TOKENS);
  });
});
