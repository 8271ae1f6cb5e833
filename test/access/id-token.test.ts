import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { expect, it, onTestFinished } from "vitest";
import { IdentityProvider, type Leaving } from "../../src/core/access/identity-provider.ts";
import { type OidcSignIn, oidc } from "../../src/core/access/oidc.ts";

const CLIENT = "the-service";
const SECRET = "the-secret-of-the-client-which-is-long-enough";
const BACK = "https://agents.example.com/admin/sign-in/back";
const own = await generateKeyPair("RS256");
const other = await generateKeyPair("RS256");

type Claims = Readonly<Record<string, unknown>>;
/** What the provider answers with, in place of a token that is right. */
type Forge = (claims: Claims) => Promise<string>;

const signed =
  (changed: Claims = {}, key = own.privateKey): Forge =>
  (claims) =>
    new SignJWT({ ...claims, ...changed }).setProtectedHeader({ alg: "RS256", kid: "one" }).sign(key);

/** A provider whose tokens are what a test says; it ends with the test. */
async function provider() {
  let idToken: () => Promise<string> = async () => "";
  let challenge: string | undefined;
  const server = createServer(async (request, response) => {
    const send = (body: unknown) =>
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
    if (request.url === "/.well-known/openid-configuration")
      return send({
        ...{ issuer, jwks_uri: `${issuer}/keys`, token_endpoint: `${issuer}/token` },
        ...{ authorization_endpoint: `${issuer}/authorize`, response_types_supported: ["code"] },
        ...{ subject_types_supported: ["public"], id_token_signing_alg_values_supported: ["RS256"] },
      });
    if (request.url === "/keys")
      return send({ keys: [{ ...(await exportJWK(own.publicKey)), kid: "one", alg: "RS256", use: "sig" }] });
    request.resume();
    if (challenge !== undefined)
      return response
        .writeHead(401, { "content-type": "application/json", "www-authenticate": challenge })
        .end(JSON.stringify({ error: "refused" }));
    const id_token = await idToken();
    return send({ access_token: "a", refresh_token: "r", token_type: "bearer", expires_in: 60, id_token });
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(() => void server.close());
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const options = { issuer, clientId: CLIENT, clientSecret: SECRET, roles: { "*": "viewer" } } as const;
  const identity = new IdentityProvider(oidc(options) as OidcSignIn);
  const seconds = Math.floor(Date.now() / 1000);
  const claims = { iss: issuer, aud: CLIENT, sub: "ada", iat: seconds, exp: seconds + 60 };
  return {
    identity,
    /** Comes back from the provider, which has given such a token. */
    async finish(forge: Forge, leaving?: Leaving) {
      const left = leaving ?? (await identity.begin(BACK)).leaving;
      idToken = () => forge({ ...claims, nonce: left.nonce });
      return identity.finish(new URL(`${BACK}?code=c&state=${left.state}`), left);
    },
    /** Has it ask for credentials, instead of giving tokens. */
    refuse: (how: string) => {
      challenge = how;
    },
    /** Asks it later, where it gives such a token. */
    check(forge: Forge) {
      idToken = () => forge(claims);
      return identity.check({ issuer, subject: "ada", groups: [] }, { refresh: "r", access: "a" });
    },
  };
}

it("a token of the provider says who somebody is", async () => {
  const { finish, check } = await provider();

  expect((await finish(signed())).person).toMatchObject({ subject: "ada" });
  expect((await check(signed()))?.person).toMatchObject({ subject: "ada" });
});

const past = Math.floor(Date.now() / 1000) - 600;
const FORGED: Readonly<Record<string, Forge>> = {
  "that somebody else has signed": signed({}, other.privateKey),
  "that nobody has signed": async (claims) => new UnsecuredJWT({ ...claims }).encode(),
  "that is signed with the secret of the client": (claims) =>
    new SignJWT({ ...claims })
      .setProtectedHeader({ alg: "HS256", kid: "one" })
      .sign(new TextEncoder().encode(SECRET)),
  "whose claims were changed": async (claims) => {
    const [head, , signature] = (await signed()(claims)).split(".");
    return [
      head,
      Buffer.from(JSON.stringify({ ...claims, sub: "eve" })).toString("base64url"),
      signature,
    ].join(".");
  },
  "of another provider": signed({ iss: "https://elsewhere.example.com" }),
  "for another service": signed({ aud: "another-service" }),
  "that has ended": signed({ iat: past, exp: past + 60 }),
  "about nobody": signed({ sub: "" }),
};

it.each(Object.entries(FORGED))("a token %s signs nobody in, and ends a session", async (_, forge) => {
  const { finish, check } = await provider();

  await expect(finish(forge)).rejects.toMatchObject({ type: "unauthorized" });
  expect(await check(forge)).toBeUndefined();
});

it("a provider that asks for credentials of the service, and not of the person, ends no session", async () => {
  const { finish, check, refuse } = await provider();

  refuse('Basic realm="clients"');
  await expect(finish(signed())).rejects.toMatchObject({ type: "unavailable" });
  await expect(check(signed())).rejects.toMatchObject({ type: "unavailable" });
  refuse('Bearer error="invalid_token"');
  expect(await check(signed())).toBeUndefined();
});

it("a token that was made for another sign-in signs nobody in: each has a nonce and a state of its own", async () => {
  const { identity, finish } = await provider();
  const [one, two] = [await identity.begin(BACK), await identity.begin(BACK)];

  for (const name of ["nonce", "state", "verifier"] as const)
    expect(one.leaving[name]).not.toBe(two.leaving[name]);
  expect(one.url.searchParams.get("nonce")).toBe(one.leaving.nonce);
  await expect(finish(signed({ nonce: two.leaving.nonce }), one.leaving)).rejects.toMatchObject({
    type: "unauthorized",
  });
  await expect(finish(signed({ nonce: undefined }), one.leaving)).rejects.toMatchObject({
    type: "unauthorized",
  });
});

it("a session ends where the provider says another person at its renewal", async () => {
  const { check } = await provider();

  expect(await check(signed({ sub: "eve" }))).toBeUndefined();
});
