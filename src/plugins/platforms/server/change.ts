import type { Context } from "./context.ts";
import type { ServerLock } from "./lock.ts";

/** How the proxy is run. */
export interface ProxyOptions {
  /** Name of its container, and beginning of the names of its volumes. */
  readonly name: string;
  /** Image of Caddy. */
  readonly image: string;
  readonly httpPort: number;
  readonly httpsPort: number;
  /** Seconds to wait for the certificate of a new domain. */
  readonly patience: number;
}

/** A session that changes something: its context, its lock, and how the proxy of its server is run. */
export interface Releasing extends Context {
  readonly lock: ServerLock;
  readonly proxy: ProxyOptions;
}

/** A call that changes something: recorded before it is made, and not made without the lock. */
export function change<T>(
  { tools, lock }: Releasing,
  step: string,
  data: Readonly<Record<string, unknown>>,
  call: () => Promise<T>,
): Promise<T> {
  lock.check();
  return tools.journal({ step, data }, call);
}
