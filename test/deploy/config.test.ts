import { describe, expect, it } from "vitest";
import { parseConfig } from "../../src/deploy/config.ts";
import { resolveName, toName, toServiceName } from "../../src/deploy/name.ts";

describe("the config file", () => {
  it("has variables and secrets", () => {
    const config = parseConfig(
      'environment:\n  LOG_LEVEL: "debug"\nsecrets:\n  - name: ERP_TOKEN\n    description: token\n  - {name: A, value: b}\n',
    );

    expect(config).toEqual({
      environment: { LOG_LEVEL: "debug" },
      secrets: [
        { name: "ERP_TOKEN", value: undefined },
        { name: "A", value: "b" },
      ],
      store: undefined,
      known: true,
      file: ".deployment/config.yaml",
    });
  });

  it.each(["", "# nothing\n", "environment:\nsecrets:\n"])("may be empty: %j", (text) => {
    expect(parseConfig(text)).toEqual({ environment: {}, secrets: [], store: undefined, known: false });
  });

  it.each([
    ["environment:\n  PORT_COUNT: 3\n", /line 2: environment\.PORT_COUNT: must be text/],
    ["environment:\n  A: x\n B: y\n", /line 3/],
    ["secrets:\n  - value: x\n", /line 2: secrets\.0\.name/],
    ["secrets:\n  - name: 1A\n", /line 2: secrets\.0\.name: must be a variable name/],
    ["enviroment: {}\n", /line 1: enviroment: is unknown/],
    ["store: mysql\n", /line 1: store: must be "file" or "external"/],
    ["environment:\n  SERVICE_API_KEY: abc\n", /line 2: SERVICE_API_KEY is a secret/],
    ["environment:\n  SERVICE_ACCOUNT_API_KEY: abc\n", /line 2: SERVICE_ACCOUNT_API_KEY is a secret/],
    ["environment:\n  SERVICE_PORT: '1'\n", /line 2: SERVICE_PORT is set by the options/],
    [
      "environment: {A: x}\nsecrets:\n  - {name: A, value: y}\n",
      /line 3: A is both a secret and a plain variable/,
    ],
    ["secrets:\n  - {name: A}\n  - {name: A}\n", /line 3: secret A is listed twice/],
  ])("an error names the line: %j", (text, message) => {
    expect(() => parseConfig(text)).toThrow(message);
  });

  it("an error never quotes a value, which may be a secret", () => {
    const broken = "secrets:\n  - name: A\n    value: [planted-value]\n";

    expect(() => parseConfig(broken)).toThrow(/line 3/);
    expect(() => parseConfig(broken)).not.toThrow(/planted-value/);
  });
});

describe("names", () => {
  it.each([
    ["My Agent!", "my-agent"],
    ["Prüfung_2", "pru-fung-2"],
    ["42-things", "things"],
    ["---", ""],
  ])("%j becomes %j", (text, name) => {
    expect(toName(text)).toBe(name);
  });

  it("the folder's name is the default", () => {
    expect(resolveName(undefined, "/somewhere/Invoice Audit")).toBe("invoice-audit");
  });

  it.each(["Hello", "9lives", "a_b", "-a", "a-", ""])("%j is refused with a suggestion", (name) => {
    expect(() => resolveName(name, "/x")).toThrow(/not a service name/);
  });

  it("a service name is the name and the environment, at most as long as a DNS label", () => {
    expect(toServiceName("hello", "prod")).toBe("hello-prod");
    expect(() => toServiceName("a".repeat(60), "dev")).toThrow(/64 characters/);
  });
});
