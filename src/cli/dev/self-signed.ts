import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { isIPv4, isIPv6 } from "node:net";
import type { Certificate } from "../../core/http/serve.ts";

const DAY = 24 * 3_600_000;

/** Creates a certificate for these names and addresses that no authority has signed, and its key: X.509, in DER. */
export function createSelfSigned(
  hosts: readonly string[],
  { days, now = new Date() }: { readonly days: number; readonly now?: Date },
): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const name = sequence(set(sequence(oid("2.5.4.3"), text(hosts[0] ?? "localhost"))));
  const algorithm = sequence(oid("1.2.840.10045.4.3.2"));
  // The first bit says that a number is negative.
  const serial = randomBytes(16);
  serial[0] = (serial[0]! & 0x7f) | 0x40;
  const unsigned = sequence(
    tagged(0, integer(2)),
    tlv(0x02, serial),
    algorithm,
    name,
    // Clocks of other devices differ.
    sequence(time(new Date(now.getTime() - DAY)), time(new Date(now.getTime() + days * DAY))),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    tagged(
      3,
      sequence(
        // It signs no other certificate.
        extension("2.5.29.19", sequence(), true),
        extension("2.5.29.37", sequence(oid("1.3.6.1.5.5.7.3.1"))),
        extension("2.5.29.17", sequence(...hosts.map(alternativeName))),
      ),
    ),
  );
  const signature = sign("sha256", unsigned, privateKey);
  const signed = sequence(unsigned, algorithm, tlv(0x03, Buffer.from([0]), signature));
  const lines = signed.toString("base64").replaceAll(/.{64}(?=.)/g, "$&\n");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

/** A tag, the length, and the content. */
function tlv(tag: number, ...content: readonly Buffer[]): Buffer {
  const value = Buffer.concat(content);
  const size = value.length;
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), value]);
}

const sequence = (...parts: readonly Buffer[]) => tlv(0x30, ...parts);
const set = (...parts: readonly Buffer[]) => tlv(0x31, ...parts);
const tagged = (number: number, part: Buffer) => tlv(0xa0 + number, part);
const integer = (value: number) => tlv(0x02, Buffer.from([value]));
const text = (value: string) => tlv(0x0c, Buffer.from(value));

/** In the form for years from 2050 on, too. */
function time(date: Date): Buffer {
  const digits = date.toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  return date.getUTCFullYear() < 2050
    ? tlv(0x17, Buffer.from(digits.slice(2)))
    : tlv(0x18, Buffer.from(digits));
}

function oid(name: string): Buffer {
  const [first = 0, second = 0, ...rest] = name.split(".").map(Number);
  const bytes = [first * 40 + second, ...rest].flatMap((part) => {
    const digits = [part & 0x7f];
    for (let left = part >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80);
    return digits;
  });
  return tlv(0x06, Buffer.from(bytes));
}

function extension(name: string, value: Buffer, isCritical = false): Buffer {
  const critical = isCritical ? [tlv(0x01, Buffer.from([0xff]))] : [];
  return sequence(oid(name), ...critical, tlv(0x04, value));
}

function alternativeName(host: string): Buffer {
  if (isIPv4(host)) return tlv(0x87, Buffer.from(host.split(".").map(Number)));
  if (isIPv6(host)) return tlv(0x87, bytesOf(host));
  return tlv(0x82, Buffer.from(host));
}

/** The 16 bytes of an IPv6 address. */
function bytesOf(address: string): Buffer {
  // The URL parser writes the dotted end of an address as two groups.
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const groups = (part: string) => (part === "" ? [] : part.split(":"));
  const [left, right] = [groups(head), groups(tail ?? "")];
  const all = [...left, ...Array<string>(8 - left.length - right.length).fill("0"), ...right];
  return Buffer.from(
    all.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff]),
  );
}
