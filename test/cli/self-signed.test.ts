import { createPrivateKey, X509Certificate } from "node:crypto";
import { createServer, get } from "node:https";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { createSelfSigned } from "../../src/cli/dev/self-signed.ts";
import { createPinnedFetch } from "../../src/cli/job/pinned-fetch.ts";

const HOSTS = ["localhost", "127.0.0.1", "::1", "desk.example", "fe80::1:2", "::ffff:192.0.2.7"];

it("a certificate is for its names and addresses, for its days, and belongs to its key", () => {
  const now = new Date("2049-11-20T12:00:00Z");
  const { cert, key } = createSelfSigned(HOSTS, { days: 90, now });
  const read = new X509Certificate(cert);

  expect(["localhost", "desk.example"].map((name) => read.checkHost(name))).toEqual([
    "localhost",
    "desk.example",
  ]);
  for (const address of ["127.0.0.1", "::1", "fe80::1:2", "::ffff:192.0.2.7"])
    expect(read.checkIP(address), address).toBe(address);
  expect([read.checkHost("other.example"), read.checkIP("127.0.0.2")]).toEqual([undefined, undefined]);
  expect(new Date(read.validFrom).toISOString()).toBe("2049-11-19T12:00:00.000Z");
  // From 2050 on, X.509 writes years in full.
  expect(new Date(read.validTo).toISOString()).toBe("2050-02-18T12:00:00.000Z");
  expect(read.ca).toBe(false);
  expect(read.verify(read.publicKey)).toBe(true);
  expect(read.checkPrivateKey(createPrivateKey(key))).toBe(true);
  expect(createSelfSigned(HOSTS, { days: 90, now }).cert).not.toBe(cert);
});

it("a server has the certificate, and who trusts it and no other connects", async () => {
  const { cert, key } = createSelfSigned(["localhost", "127.0.0.1"], { days: 1 });
  const other = createSelfSigned(["localhost", "127.0.0.1"], { days: 1 });
  const server = createServer({ cert, key }, (_, response) => void response.end("here"));
  onTestFinished(() => void server.close());
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/`;

  const trusted = await (await createPinnedFetch(cert)(url)).text();
  const asAuthority = await new Promise<number | undefined>((resolve, reject) => {
    get(url, { ca: cert, agent: false }, (response) => resolve(response.resume().statusCode)).on(
      "error",
      reject,
    );
  });

  expect([trusted, asAuthority]).toEqual(["here", 200]);
  await expect(createPinnedFetch(other.cert)(url)).rejects.toThrow();
});
