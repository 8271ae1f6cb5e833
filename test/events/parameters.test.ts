import {
  constants,
  createCipheriv,
  createDecipheriv,
  createPublicKey,
  generateKeyPairSync,
  privateDecrypt,
  publicEncrypt,
  randomBytes,
} from "node:crypto";
import { describe, expect, it } from "vitest";
import { Parameters } from "../../src/core/agents/parameters.ts";
import { AgentRegistry } from "../../src/core/agents/registry.ts";
import { isServiceError } from "../../src/core/base/errors.ts";
import { Redactor } from "../../src/core/base/redactor.ts";

const { privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});

function create(env: Record<string, string> = {}, options: { envelopes?: "v2" } = {}) {
  const redactor = new Redactor();
  const keys = { apiKey: "an-api-key", rsaPrivateKeys: [privateKey] as const, apiKeyGenerated: false };
  return { redactor, parameters: new Parameters(keys, redactor, { env, ...options }) };
}

/** A client of the family, written from the byte layout alone. */
function clientEncrypt(text: string, publicPem: string): string {
  const key = randomBytes(32);
  const iv = randomBytes(16);
  const wrapped = publicEncrypt(
    { key: createPublicKey(publicPem), padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: "sha256" },
    key,
  );
  const cipher = createCipheriv("aes-256-cbc", key, iv);
  const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([wrapped, iv, body]).toString("base64");
}

function clientDecrypt(envelope: string): string {
  const bytes = Buffer.from(envelope, "base64");
  const key = privateDecrypt(
    { key: privateKey, padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: "sha256" },
    bytes.subarray(0, 256),
  );
  expect(key).toHaveLength(32);
  const decipher = createDecipheriv("aes-256-cbc", key, bytes.subarray(256, 272));
  return Buffer.concat([decipher.update(bytes.subarray(272)), decipher.final()]).toString("utf8");
}

function errorOf(fn: () => unknown) {
  try {
    fn();
  } catch (error) {
    if (isServiceError(error)) return { status: error.status, message: error.message, detail: error.detail };
    throw error;
  }
  throw new Error("nothing was thrown");
}

const texts = {
  "one byte": "x",
  nothing: "",
  "a full block": "0123456789abcdef",
  "10 kB": "k".repeat(10_240),
  "UTF-8": "naïve ☃ 𝒳 \u0000 \n パスワード",
};

describe("agent parameters", () => {
  it.each(Object.entries(texts))("%s is sent from a client to the service and read back", (_, text) => {
    const { parameters } = create();

    expect(parameters.decrypt(clientEncrypt(text, parameters.publicKeyPem()))).toBe(text);
    expect(clientDecrypt(parameters.encrypt(text, { version: 1 }))).toBe(text);
    expect(parameters.decrypt(parameters.encrypt(text))).toBe(text);
  });

  it("the public key is SPKI", () => {
    expect(create().parameters.publicKeyPem()).toMatch(/^-----BEGIN PUBLIC KEY-----\n/);
  });

  it("the authenticated envelope is recognized by its prefix and refuses a changed bit anywhere", () => {
    const { parameters } = create();
    const envelope = parameters.encrypt('{"A":"value-1"}');
    expect(envelope.startsWith("v2.")).toBe(true);
    const bytes = Buffer.from(envelope.slice(3), "base64");

    for (const at of [0, 255, 256, 267, 268, bytes.length - 17, bytes.length - 1]) {
      const changed = Buffer.from(bytes);
      changed[at]! ^= 1;
      expect(errorOf(() => parameters.open(`v2.${changed.toString("base64")}`)).status).toBe(422);
    }
  });

  it("reports the same for every problem of an envelope", () => {
    const { parameters } = create();
    const good = Buffer.from(parameters.encrypt('{"A":"value-1"}', { version: 1 }), "base64");
    const other = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const foreign = clientEncrypt(
      '{"A":"value-1"}',
      other.publicKey.export({ type: "spki", format: "pem" }).toString(),
    );
    const badPadding = Buffer.from(good);
    badPadding[256 + 15]! ^= 0xff;
    const badLast = Buffer.from(good);
    badLast[badLast.length - 1]! ^= 0xff;
    const bad = [
      "",
      "x",
      "not base64 at all!",
      "v2.",
      "v2.AAAA",
      good.subarray(0, 100).toString("base64"),
      good.subarray(0, 256).toString("base64"),
      good.subarray(0, 272).toString("base64"),
      good.subarray(0, -1).toString("base64"),
      good.subarray(0, -16).toString("base64"),
      foreign,
      badPadding.toString("base64"),
      badLast.toString("base64"),
      `v2.${good.toString("base64")}`,
      parameters.encrypt("no JSON"),
      parameters.encrypt('"text"'),
      parameters.encrypt("null"),
      parameters.encrypt('[{"value":"no name"}]'),
      parameters.encrypt("[1]"),
    ];

    const said = new Set(bad.map((envelope) => JSON.stringify(errorOf(() => parameters.open(envelope)))));

    expect(said.size).toBe(1);
    expect(JSON.parse([...said][0]!)).toMatchObject({ status: 422 });
    expect([...said][0]).not.toContain("value-1");
  });

  it("reads a list and a map alike", () => {
    const { parameters } = create();
    const list =
      '[{"name":"TOKEN","value":"t-1"},{"name":"__proto__","value":"harmless"},{"name":"RETRIES","value":3},{"name":"NONE","value":null}]';
    const map = '{"TOKEN":"t-1","__proto__":"harmless","RETRIES":3,"NONE":null}';

    const fromList = parameters.open(parameters.encrypt(list));
    const fromMap = parameters.open(parameters.encrypt(map));

    expect(Object.entries(fromList)).toEqual([
      ["TOKEN", "t-1"],
      ["__proto__", "harmless"],
      ["RETRIES", "3"],
    ]);
    expect(Object.entries(fromMap)).toEqual(Object.entries(fromList));
    expect(({} as Record<string, unknown>).harmless).toBeUndefined();
  });

  it("decrypted values are known to the redactor", () => {
    const { parameters, redactor } = create();

    parameters.open(parameters.encrypt('{"TOKEN":"planted-secret-77"}'));

    expect(redactor.text("agent says planted-secret-77")).toBe("agent says [secret]");
    const basic = Buffer.from("user:planted-secret-77").toString("base64");
    expect(redactor.text(`Basic ${basic}`)).toMatch(/^Basic .{0,10}\[secret\].{0,4}$/);
  });

  describe("against an agent", () => {
    const agent = new AgentRegistry([
      {
        name: "Auditor",
        version: "1",
        parameters: [
          { name: "TOKEN", is_secret: true, is_required: true },
          { name: "REGION", is_secret: false, value: "europe-west" },
          { name: "FROM_ENV", is_environment: true, is_required: true },
        ],
        methods: { job_start: { run: () => null } },
      },
    ]).get("auditor");

    it("names missing and unknown parameters, never a value", () => {
      const { parameters } = create();

      const check = parameters.validate(agent, parameters.encrypt('{"TOCKEN":"planted-secret-78"}'));

      expect(check).toEqual({
        valid: false,
        message: "Agent parameters are invalid",
        errors: [
          "Parameter TOKEN is required and missing",
          "Parameter FROM_ENV is required and missing",
          "Parameter TOCKEN is not a parameter of auditor",
        ],
        invalid_parameters: {
          TOKEN: "is required and missing",
          FROM_ENV: "is required and missing",
          TOCKEN: "is not a parameter of auditor",
        },
      });
    });

    it("fills in the declared values and the environment", () => {
      const { parameters, redactor } = create({ FROM_ENV: "from-the-environment" });
      const encrypted = parameters.encrypt('[{"name":"TOKEN","value":"planted-secret-79"}]');

      expect(parameters.validate(agent, encrypted).valid).toBe(true);
      expect(parameters.resolve(agent, encrypted)).toEqual({
        TOKEN: "planted-secret-79",
        REGION: "europe-west",
        FROM_ENV: "from-the-environment",
      });
      expect(redactor.text("planted-secret-79 in europe-west, from-the-environment")).toBe(
        "[secret] in europe-west, [secret]",
      );
    });
  });
});
