import { BlockList, isIP } from "node:net";

/** Networks of this machine and of private use (RFC 1918, 4193, 6598), and link-local ones. */
const PRIVATE = [
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "::1",
  "fc00::/7",
  "fe80::/10",
];

/**
 * A test for the addresses in networks such as `10.0.0.0/8`, `192.0.2.7` or `private`; `undefined` if one of
 * them is invalid.
 */
export function readNetworks(networks: readonly string[]): ((address: string) => boolean) | undefined {
  const list = new BlockList();
  for (const network of networks.flatMap((one) => (one === "private" ? PRIVATE : [one]))) {
    const [address = "", bits, ...rest] = network.split("/");
    const family = isIP(address);
    const most = family === 6 ? 128 : 32;
    const prefix = bits === undefined ? most : /^\d{1,3}$/.test(bits) ? Number(bits) : most + 1;
    if (family === 0 || prefix > most || rest.length > 0) return undefined;
    list.addSubnet(address, prefix, family === 6 ? "ipv6" : "ipv4");
  }
  return (address) => {
    const family = isIP(address);
    return family !== 0 && list.check(address, family === 6 ? "ipv6" : "ipv4");
  };
}
