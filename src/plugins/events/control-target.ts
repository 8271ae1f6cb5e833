import type { DeliveryTarget, NewEvent } from "../../core/delivery/events.ts";
import { type Fetch, postJson } from "../../core/delivery/post-json.ts";
import type { Account } from "../../core/models/account.ts";

/** Name of messages for the control system in the outbox. */
export const CONTROL = "control";

/** Sends events to the control system; `onRegistered` is called for each agent that it has registered. */
export function createControlTarget(
  account: Account,
  fetch: Fetch,
  onRegistered: (slug: string) => Promise<void>,
): DeliveryTarget {
  const url = `${controlUrl(account)}/ctrl-events/`;
  return {
    name: CONTROL,
    accepts: () => true,
    async send({ body, idempotencyKey, headers, signal }) {
      const { source, type, object_type, details } = body as NewEvent;
      await postJson(fetch, url, {
        headers: { ...headers, ...accountHeaders(account), "idempotency-key": idempotencyKey },
        body: JSON.stringify({
          source,
          workspace: account.workspace_id,
          event_type: type,
          object_type,
          details,
        }),
        signal,
      });
      if (type === "agent.register") void onRegistered(String(source.agent));
    },
  };
}

/** Base path of a workspace in the control system's API. */
export function controlUrl({ api_url, workspace_id }: Account): string {
  return `${api_url.replace(/\/+$/, "")}/w/${encodeURIComponent(workspace_id)}/api/v1`;
}

export function accountHeaders(account: Account): Record<string, string> {
  return {
    authorization: `Api-Key ${account.api_key}`,
    accept: "application/json",
    workspace: account.workspace_id,
  };
}
