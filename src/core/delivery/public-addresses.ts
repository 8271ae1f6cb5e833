import { BlockList, isIP } from "node:net";

/**
 * Ranges that no webhook may reach unless it is allowed: this machine, private networks, metadata services,
 * and reserved ranges.
 */
const REFUSED = new BlockList();
const V4 = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
] as const;
const V6 = [
  ["::", 96],
  // IPv4 as a translator of RFC 2765 writes it: `::ffff:0:127.0.0.1`.
  ["::ffff:0:0:0", 96],
  ["64:ff9b::", 96],
  ["64:ff9b:1::", 48],
  ["100::", 64],
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["fc00::", 7],
  ["fe80::", 10],
  ["fec0::", 10],
  ["ff00::", 8],
] as const;
for (const [network, prefix] of V4) REFUSED.addSubnet(network, prefix, "ipv4");
for (const [network, prefix] of V6) REFUSED.addSubnet(network, prefix, "ipv6");

/** Whether an address is on the public internet. IPv4 written as IPv6 is judged as IPv4. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 0) return false;
  // BlockList knows `::ffff:a.b.c.d` as the IPv4 address that it is.
  return !REFUSED.check(address, family === 4 ? "ipv4" : "ipv6");
}
