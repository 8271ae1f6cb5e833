import { describe, expect, it } from "vitest";
import { defineAgent } from "../../src/core/agents/define-agent.ts";
import { OptionsError } from "../../src/core/base/check-options.ts";
import { resolveOptions } from "../../src/core/service/options.ts";

const agent = defineAgent({ name: "A", version: "1", methods: { job_start: { run: () => null } } });
const agents = [agent];

const PEM_OF_NOTHING = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----";

describe("options", () => {
  it("an option overrides the variable, the variable overrides the default", () => {
    const byDefault = resolveOptions({ agents }, {});
    const byVariable = resolveOptions({ agents }, { SERVICE_PORT: "9001", SERVICE_HOST: "0.0.0.0" });
    const byOption = resolveOptions({ agents, port: 9002 }, { SERVICE_PORT: "9001" });

    expect([byDefault.port, byVariable.port, byOption.port]).toEqual([8000, 9001, 9002]);
    expect([byDefault.host, byVariable.host]).toEqual(["127.0.0.1", "0.0.0.0"]);
  });

  it("the port that container platforms set is used if SERVICE_PORT is not set", () => {
    expect(resolveOptions({ agents }, { PORT: "8080" }).port).toBe(8080);
    expect(resolveOptions({ agents }, { PORT: "8080", SERVICE_PORT: "8001" }).port).toBe(8001);
  });

  it("a name that is no option is refused, with the one that was meant", () => {
    const options = { agents, maxConcurentJobs: 4 };

    expect(() => resolveOptions(options, {})).toThrow(
      "Cannot use these options: maxConcurentJobs is not known: did you mean maxConcurrentJobs?",
    );
  });

  it("does not change the caller's object", () => {
    const options = Object.freeze({ agents: Object.freeze([agent]) });

    const resolved = resolveOptions(options, {});

    expect(Object.keys(options)).toEqual(["agents"]);
    expect(resolved.agents).not.toBe(options.agents);
  });

  it("an empty variable counts as not set", () => {
    expect(resolveOptions({ agents }, { SERVICE_API_KEY: "  " }).apiKey).toBeUndefined();
  });

  it("retention times come from the option, then from the variable, and are unset by default", () => {
    const env = { SERVICE_RETENTION_COMPLETED: "30d", SERVICE_RETENTION_FAILED: "90d" };

    const { retention } = resolveOptions({ agents, retention: { failed: "keep", cancelled: 60 } }, env);

    expect(retention).toEqual({ completed: 30 * 86_400_000, failed: null, cancelled: 60_000 });
    expect(resolveOptions({ agents }, {}).retention).toEqual({
      completed: null,
      failed: null,
      cancelled: null,
    });
  });

  it.each([
    [
      { retention: { completed: "soon" } },
      {},
      /retention.completed must be a duration.*SERVICE_RETENTION_COMPLETED/,
    ],
    [{ retention: { failed: 0 } }, {}, /retention.failed must be a duration of a second or more/],
    [
      { retention: { awaiting: "1d" } },
      {},
      /retention.awaiting is not known here, only completed, failed, cancelled/,
    ],
    [{}, { SERVICE_RETENTION_CANCELLED: "7" }, /retention.cancelled must be a duration/],
  ] as const)("refuses %j and %j", (options, env, problem) => {
    expect(() => resolveOptions({ agents, ...(options as object) }, env)).toThrow(problem);
  });

  it.each([
    [
      { SERVICE_ALLOWED_ORIGINS: "nowhere" },
      /allowedOrigins\.0 must be origins .*\(SERVICE_ALLOWED_ORIGINS\)/,
    ],
    [{ SERVICE_PORT: "80a" }, /SERVICE_PORT must be a whole number/],
    [{ SERVICE_PORT: "70000" }, /port/],
    [{ SERVICE_PUBLIC_URL: "ftp://x" }, /publicUrl must start with http/],
    [{ SERVICE_LOG_LEVEL: "loud" }, /logLevel must be/],
    [{ SERVICE_API_PREFIX: "supervaizer/" }, /apiPrefix must be empty or like/],
    [{ SERVICE_RSA_PRIVATE_KEY: "abc" }, /rsaPrivateKey must be an RSA private key in PEM/],
    [{ SERVICE_RSA_PRIVATE_KEY: PEM_OF_NOTHING }, /rsaPrivateKey must be an RSA private key in PEM/],
    [{ SERVICE_API_KEY: "key-with-€-sign" }, /apiKey must consist of visible ASCII characters/],
    [{ SERVICE_API_KEY: "two words-key" }, /apiKey must consist of visible ASCII characters/],
    [{ SERVICE_LOG_FORMAT: "xml" }, /logFormat must be one of text, json \(SERVICE_LOG_FORMAT\)/],
    [{ SERVICE_PORT: "70000" }, /port must be at most 65535 \(SERVICE_PORT\)/],
    [{ SERVICE_ACCOUNT_API_KEY: "k" }, /SERVICE_ACCOUNT_WORKSPACE_ID/],
  ])("the environment %j is refused with a message that names the option", (env, message) => {
    expect(() => resolveOptions({ agents }, env)).toThrow(OptionsError);
    expect(() => resolveOptions({ agents }, env)).toThrow(message);
  });

  it("a refused secret is not repeated in the message", () => {
    const refuse = () => resolveOptions({ agents, apiKey: "s3cret" }, {});

    expect(refuse).toThrow(/apiKey must be at least 8 characters/);
    expect(refuse).not.toThrow(/s3cret/);
  });

  it.each([
    ["1", 1],
    ["0", 0],
    ["10.0.0.0/8, fd00::/8,192.0.2.7,private", ["10.0.0.0/8", "fd00::/8", "192.0.2.7", "private"]],
  ])("SERVICE_TRUST_PROXY=%s is accepted", (value, trustProxy) => {
    expect(resolveOptions({ agents }, { SERVICE_TRUST_PROXY: value }).trustProxy).toEqual(trustProxy);
    expect(resolveOptions({ agents }, {}).trustProxy).toBe(0);
  });

  it.each(["yes", "10.0.0.0/33", "10.0.0.0/8/8", "proxy.example", "-1", "1.5", "10.0.0.0/"])(
    "SERVICE_TRUST_PROXY=%s is refused",
    (value) => {
      expect(() => resolveOptions({ agents }, { SERVICE_TRUST_PROXY: value })).toThrow(
        /trustProxy must be a number of proxies.*SERVICE_TRUST_PROXY/,
      );
    },
  );

  it.each([
    { SERVICE_API_KEY: "12345678" },
    { SERVICE_API_KEY: "correct-horse", SERVICE_PREVIOUS_API_KEY: "0".repeat(100) },
  ])("in production a weak key is refused: %j", (env) => {
    const refuse = () => resolveOptions({ agents }, { ...env, SERVICE_ENVIRONMENT: "prod" });

    expect(refuse).toThrow(/SERVICE_API_KEY.*less than 128 bits.*prod/);
    expect(refuse).not.toThrow(new RegExp(env.SERVICE_API_KEY));
    expect(resolveOptions({ agents }, { ...env, SERVICE_ENVIRONMENT: "dev" }).environment).toBe("dev");
  });

  it("a service without agents is refused", () => {
    expect(() => resolveOptions({ agents: [] }, {})).toThrow(/defineAgent/);
  });

  it("a mistake is reported once", () => {
    const refuse = () => resolveOptions({ agents }, { SERVICE_PUBLIC_URL: "nowhere" });

    expect(refuse).toThrow(/^Cannot use these options: publicUrl [^;]*$/);
  });

  it("the address of a control system must be http or https", () => {
    const account = { workspace_id: "w", api_key: "k", api_url: "ftp://control.example" };

    expect(() => resolveOptions({ agents, account }, {})).toThrow(/api_url/);
  });

  it("an account is complete or absent", () => {
    const env = {
      SERVICE_ACCOUNT_WORKSPACE_ID: "w",
      SERVICE_ACCOUNT_API_KEY: "k",
      SERVICE_ACCOUNT_API_URL: "https://control.example",
    };

    expect(resolveOptions({ agents }, {}).account).toBeUndefined();
    expect(resolveOptions({ agents }, env).account).toEqual({
      workspace_id: "w",
      api_key: "k",
      api_url: "https://control.example",
    });
  });
});
