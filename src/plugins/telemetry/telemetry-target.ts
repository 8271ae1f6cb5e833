import type { DeliveryTarget } from "../../core/delivery/events.ts";
import { type Fetch, postJson } from "../../core/delivery/post-json.ts";
import type { Account } from "../../core/models/account.ts";
import type { Telemetry } from "../../core/models/telemetry.ts";

/** Name of telemetry that must not be lost in the outbox. */
export const TELEMETRY = "telemetry";
const TIMEOUT = 10_000;

/** Sends one item to the control system. */
export function createSender(account: Account, fetch: Fetch) {
  const url = `${account.api_url.replace(/\/+$/, "")}/v1/telemetry`;
  return (
    { agentId, type, severity, category, details }: Telemetry,
    { headers = {}, signal = AbortSignal.timeout(TIMEOUT) }: { headers?: object; signal?: AbortSignal } = {},
  ): Promise<void> =>
    postJson(fetch, url, {
      headers: {
        ...headers,
        authorization: `Api-Key ${account.api_key}`,
        workspace: account.workspace_id,
      },
      body: JSON.stringify({
        workspace_id: account.workspace_id,
        agentId,
        eventType: type,
        severity,
        eventCategory: category,
        details,
      }),
      signal,
    });
}

export function createTelemetryTarget(send: ReturnType<typeof createSender>): DeliveryTarget {
  return {
    name: TELEMETRY,
    send: ({ body, idempotencyKey, headers, signal }) =>
      send(body as Telemetry, { headers: { ...headers, "idempotency-key": idempotencyKey }, signal }),
  };
}
