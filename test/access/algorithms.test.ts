import {
  exportJWK,
  generateKeyPair,
  generateSecret,
  type JWTVerifyGetKey,
  SignJWT,
  UnsecuredJWT,
} from "jose";
import { describe, expect, it } from "vitest";
import { verifyJwt } from "../../src/core/access/verify-jwt.ts";

const now = new Date();
const seconds = Math.floor(now.getTime() / 1000);
const CLAIMS = { iss: "issuer", aud: "service", sub: "ada", iat: seconds, exp: seconds + 60 };
const verify = (token: string, key: Awaited<ReturnType<JWTVerifyGetKey>>) =>
  verifyJwt(token, {
    ...{ issuer: "issuer", audience: ["service"], clockSkew: 30, now },
    keys: async () => async () => key,
    wrong: (reason) => Object.assign(new Error(reason), { isWrong: true }) as never,
    unchecked: (cause) => Object.assign(new Error(String(cause)), { isWrong: false }) as never,
  });
const sign = (alg: string, key: Parameters<SignJWT["sign"]>[0]) =>
  new SignJWT(CLAIMS).setProtectedHeader({ alg }).sign(key);

describe("a signed token", () => {
  it.each([
    ...["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
    ...["ES256", "ES384", "ES512", "EdDSA", "Ed25519"],
  ])("is accepted with %s, and not with another key", async (alg) => {
    const [own, other] = [await generateKeyPair(alg), await generateKeyPair(alg)];
    const token = await sign(alg, own.privateKey);

    expect((await verify(token, own.publicKey)).sub).toBe("ada");
    await expect(verify(token, other.publicKey)).rejects.toMatchObject({ isWrong: true });
  });

  it.each(["HS256", "HS384", "HS512"])(
    "is refused with %s, whatever the key is: who checks such a signature can make it",
    async (alg) => {
      const secret = await generateSecret(alg, { extractable: true });
      const published = new TextEncoder().encode(
        JSON.stringify(await exportJWK((await generateKeyPair("RS256", { extractable: true })).publicKey)),
      );

      for (const key of [secret, published])
        await expect(verify(await sign(alg, key), key)).rejects.toMatchObject({ isWrong: true });
    },
  );

  it("is refused without a signature", async () => {
    const { publicKey } = await generateKeyPair("RS256");

    await expect(verify(new UnsecuredJWT(CLAIMS).encode(), publicKey)).rejects.toMatchObject({
      isWrong: true,
    });
  });
});
