import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { onTestFinished } from "vitest";

/** What a proxy says about a person, unless a test says otherwise. */
export interface Said {
  readonly [claim: string]: unknown;
  readonly sub?: string;
  /** Seconds from now. */
  readonly iat?: number | undefined;
  readonly exp?: number | undefined;
}

/** A proxy that signs who people are, as far as a service hears of it. */
export interface Issuer {
  readonly issuer: string;
  /** Where it publishes its public keys. */
  readonly jwks: string;
  /** Signs an assertion about a person. */
  sign(
    said?: Said,
    options?: { readonly alg?: string; readonly key?: Parameters<SignJWT["sign"]>[0]; readonly kid?: string },
  ): Promise<string>;
  /** Publishes another key beside the first; gives how to sign with it. */
  publish(): Promise<{ readonly key: Parameters<SignJWT["sign"]>[0]; readonly kid: string }>;
  /** How often the public keys were read. */
  readonly reads: () => number;
  /** Takes the public keys away. */
  fail(): void;
}

export const AUDIENCE = "the-service";

/** Starts one on loopback, which ends with the test. */
export async function startIssuer(now: () => Date = () => new Date()): Promise<Issuer> {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  const keys = [{ ...(await exportJWK(publicKey)), kid: "one", alg: "ES256" }];
  let reads = 0;
  let isDown = false;
  const server = createServer((_, response) => {
    reads++;
    response.writeHead(isDown ? 503 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify({ keys }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    issuer,
    jwks: `${issuer}/keys`,
    reads: () => reads,
    async publish() {
      const other = await generateKeyPair("ES256");
      keys.push({ ...(await exportJWK(other.publicKey)), kid: "two", alg: "ES256" });
      return { key: other.privateKey, kid: "two" };
    },
    fail: () => {
      isDown = true;
    },
    sign(said = {}, { alg = "ES256", key = privateKey, kid = "one" } = {}) {
      const { iat = 0, exp = 300, ...claims } = said;
      const seconds = Math.floor(now().getTime() / 1000);
      const times = {
        ...("iat" in said && said.iat === undefined ? {} : { iat: seconds + iat }),
        ...("exp" in said && said.exp === undefined ? {} : { exp: seconds + exp }),
      };
      const all = { iss: issuer, aud: AUDIENCE, sub: "ada-1", email: "Ada@Example.com", ...times, ...claims };
      return new SignJWT(all).setProtectedHeader({ alg, kid }).sign(key);
    },
  };
}
