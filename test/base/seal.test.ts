import { generateKeyPairSync } from "node:crypto";
import { expect, it } from "vitest";
import { Seal } from "../../src/core/base/seal.ts";

const rsaKey = () =>
  generateKeyPairSync("rsa", { modulusLength: 2048 })
    .privateKey.export({ type: "pkcs8", format: "pem" })
    .toString();

it("what was sealed with a former RSA key is still opened, and what is sealed now needs the present one", () => {
  const [former, present, other] = [rsaKey(), rsaKey(), rsaKey()];
  const before = new Seal([former], "sign-in");
  const after = new Seal([present, former], "sign-in");
  const sealed = before.close("state of a sign-in");

  expect(after.open(sealed)).toBe("state of a sign-in");
  expect(before.open(after.close("later"))).toBeUndefined();
  expect(after.open(after.close("later"))).toBe("later");
  expect(new Seal([present, other], "sign-in").open(sealed)).toBeUndefined();
});

it("what was sealed for another purpose, or was changed, is not opened", () => {
  const key = rsaKey();
  const seal = new Seal([key], "sign-in");
  const sealed = Buffer.from(seal.close("text"), "base64url");

  expect(new Seal([key], "tokens of a session").open(sealed.toString("base64url"))).toBeUndefined();
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at]! ^= 1;
    expect(seal.open(changed.toString("base64url"))).toBeUndefined();
    expect(seal.open(sealed.subarray(0, at).toString("base64url"))).toBeUndefined();
  }
});
