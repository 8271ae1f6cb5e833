import { BlockList, isIP } from "node:net";
import type { H3Event } from "h3";

const PRIVATE = new BlockList();
for (const [net, prefix] of [
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
] as const) {
  PRIVATE.addSubnet(net, prefix, "ipv4");
}
for (const [net, prefix] of [
  ["::1", 128],
  ["fc00::", 7],
  ["fe80::", 10],
] as const) {
  PRIVATE.addSubnet(net, prefix, "ipv6");
}

/**
 * Whom to count a request to. A peer on a private network may be the platform's proxy: the last entry of
 * `X-Forwarded-For` is then the address that the proxy saw. From anyone else that header is the client's own word.
 */
export function clientAddress(event: H3Event): string {
  const peer = plain(event.runtime?.node?.req.socket?.remoteAddress ?? "");
  if (peer === "") return "in process";
  const forwarded = event.req.headers.get("x-forwarded-for");
  if (forwarded === null || !isPrivate(peer)) return network(peer);
  const seen = plain(forwarded.slice(forwarded.lastIndexOf(",") + 1).trim());
  return network(isIP(seen) === 0 ? peer : seen);
}

function isPrivate(address: string): boolean {
  const family = isIP(address);
  return family !== 0 && PRIVATE.check(address, family === 6 ? "ipv6" : "ipv4");
}

/** IPv4 in its IPv6 form is the same peer. */
function plain(address: string): string {
  return address.startsWith("::ffff:") ? address.slice(7) : address;
}

/** One holder of IPv6 addresses has at least 2^64 of them: they count as one. */
function network(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = "", tail] = address.split("%")[0]!.split("::");
  const groups = head === "" ? [] : head.split(":");
  if (tail !== undefined) {
    const rest = tail === "" ? [] : tail.split(":");
    while (groups.length + rest.length < 8) groups.push("0");
    groups.push(...rest);
  }
  return `${groups.slice(0, 4).join(":")}::/64`;
}
