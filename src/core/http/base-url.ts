import type { HttpEvent } from "./route.ts";
import type { ServiceState } from "./service-state.ts";

/** The URL of the service's routes, as who asks reaches them, without a slash at its end; a path where nobody asks. */
export function baseUrl(
  { publicUrl }: Pick<ServiceState, "publicUrl">,
  prefix: string,
  event?: Pick<HttpEvent, "url">,
): string {
  return (publicUrl ?? event?.url.origin ?? "").replace(/\/+$/, "") + prefix;
}
