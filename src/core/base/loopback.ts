import { BlockList, isIP } from "node:net";

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** Whether a host, as written in a URL, is this machine by name (RFC 6761, section 6.3) or address. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, "");
  const family = isIP(name);
  return family === 0 ? /(^|\.)localhost$/.test(name) : LOOPBACK.check(name, family === 6 ? "ipv6" : "ipv4");
}
