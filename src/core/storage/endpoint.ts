import { isLoopback } from "../base/loopback.ts";

/** A token must not be readable on the way. */
export function checkEndpoint(endpoint: string): string {
  const { protocol, hostname } = new URL(endpoint);
  if (protocol !== "https:" && !isLoopback(hostname))
    throw new TypeError(`The endpoint ${endpoint} would send credentials unencrypted: use https`);
  return endpoint.replace(/\/+$/, "");
}
