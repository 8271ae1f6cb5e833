import { isIP } from "node:net";
import { readNetworks } from "../base/networks.ts";
import type { HttpEvent } from "./route.ts";

/** Proxies in front of the service: how many, or in which networks they are. */
export type TrustProxy = number | readonly string[];

/**
 * Determines where requests come from. `X-Forwarded-For` and `X-Forwarded-Proto` are trusted as far as
 * trusted proxies wrote them; from anyone else they are unverified.
 */
export class Clients {
  readonly #isTrusted: (address: string, hop: number) => boolean;
  readonly #onUntrusted: () => void;
  #toldOfUntrusted = false;
  /** Of connections whose requests no proxy has forwarded. */
  readonly #direct = new WeakMap<object, string>();

  /** `onUntrusted` is called once, at the first forwarded request while no proxy is trusted. */
  constructor(trust: TrustProxy, onUntrusted: () => void = () => {}) {
    const isIn = typeof trust === "number" ? undefined : readNetworks(trust);
    this.#isTrusted =
      typeof trust === "number" ? (_, hop) => hop < trust : (address) => isIn?.(address) ?? false;
    this.#onUntrusted = onUntrusted;
  }

  /** The address to count a request under, for IPv6 its /64 network; `in process` if there is no socket. */
  address(event: HttpEvent): string {
    const socket = event.runtime?.node?.req.socket;
    const forwarded = list(event, "x-forwarded-for");
    const isDirect = forwarded.length === 0;
    const known = socket && isDirect ? this.#direct.get(socket) : undefined;
    if (known !== undefined) return known;
    const peer = peerOf(event);
    if (peer === "") return "in process";
    let seen = peer;
    for (let hop = 0; forwarded.length > 0 && this.#isTrusted(seen, hop); hop++) {
      const next = withoutPort(forwarded.pop() ?? "");
      if (isIP(next) === 0) break;
      seen = next;
    }
    if (forwarded.length > 0 && seen === peer) this.#tellOnce();
    const address = network(seen);
    if (socket && isDirect) this.#direct.set(socket, address);
    return address;
  }

  /** Whether the client uses https, to us or to a trusted proxy. */
  isSecure(event: HttpEvent): boolean {
    if (event.url.protocol === "https:") return true;
    const peer = peerOf(event);
    return peer !== "" && list(event, "x-forwarded-proto").at(-1) === "https" && this.#isTrusted(peer, 0);
  }

  #tellOnce(): void {
    if (this.#toldOfUntrusted) return;
    this.#toldOfUntrusted = true;
    this.#onUntrusted();
  }
}

/** The proxies, as text. */
export function describeTrust(trust: TrustProxy): string {
  if (typeof trust !== "number") return `those in ${trust.join(", ")} are trusted`;
  if (trust === 0) return "none is trusted";
  return trust === 1 ? "the nearest one is trusted" : `the nearest ${trust} are trusted`;
}

function peerOf(event: HttpEvent): string {
  return plain(event.runtime?.node?.req.socket?.remoteAddress ?? "");
}

/** The values of a header that each proxy adds to; the nearest one's value is last. */
function list(event: HttpEvent, header: string): string[] {
  const text = event.req.headers.get(header);
  return text === null ? [] : text.split(",").map((one) => one.trim().toLowerCase());
}

/** Some proxies add the port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(text: string): string {
  const [, bracketed, v4] = /^(?:\[([^\]]*)\](?::\d+)?|([\d.]+):\d+)$/.exec(text) ?? [];
  return plain(bracketed ?? v4 ?? text);
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
