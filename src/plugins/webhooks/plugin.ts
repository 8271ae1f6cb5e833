import * as v from "valibot";
import { checkFirst } from "../../core/base/check-options.ts";
import { type NamesOf, unknownOption } from "../../core/base/refuse-unknown.ts";
import type { DeliveryTarget } from "../../core/delivery/events.ts";
import { createGuardedFetch, type Resolve } from "../../core/delivery/guarded-post.ts";
import { postJson } from "../../core/delivery/post-json.ts";
import { type EventType, EventTypeSchema } from "../../core/models/event.ts";
import { type Plugin, PluginError } from "../../core/service/plugin.ts";
import { CLOCK, EVENTS, REDACTOR } from "../../core/service/tokens.ts";
import { FORMATS } from "./formats.ts";
import { readSecret, signedHeaders } from "./sign.ts";

/** One receiver of events. */
export interface WebhookOptions {
  /** Unique, of letters, digits and `-`: names it in the outbox. */
  readonly name: string;
  readonly url: string;
  /** Signing secret: `whsec_` and base64. */
  readonly secret: string;
  /** Types of events that it wants. @default all of them */
  readonly types?: readonly EventType[];
  /** How an event is written; `cloudevents` has all of it in the body. @default "standard": as Standard Webhooks say */
  readonly format?: "standard" | "cloudevents" | "cloudevents-binary";
}

export interface WebhooksOptions {
  readonly webhooks: readonly WebhookOptions[];
  /** Lets webhooks reach this machine and private networks. @default false */
  readonly allowPrivate?: boolean;
}

const WebhookSchema = v.object({
  name: v.pipe(v.string(), v.regex(/^[A-Za-z0-9-]{1,50}$/, "must be 1 to 50 letters, digits or -")),
  url: v.pipe(
    v.string(),
    v.url("must be a URL"),
    v.regex(/^https?:\/\//, "must start with https:// or http://"),
  ),
  secret: v.string(),
  types: v.optional(v.array(EventTypeSchema)),
  format: v.optional(
    v.picklist(
      ["standard", "cloudevents", "cloudevents-binary"],
      "must be standard, cloudevents or cloudevents-binary",
    ),
  ),
});

const NAMES: NamesOf<WebhooksOptions> = { webhooks: true, allowPrivate: true };

/**
 * Sends events to your own URLs, signed according to the Standard Webhooks specification, with the guarantees
 * of the outbox.
 *
 * @example
 * webhooks({ webhooks: [{ name: "billing", url: "https://billing.example.com/hooks", secret: process.env.HOOK_SECRET }] })
 */
export function webhooks(options: WebhooksOptions, resolve?: Resolve): Plugin {
  return {
    name: "webhooks",
    dependsOn: ["events"],
    setup({ get }) {
      checkOptions(options);
      const fetch = createGuardedFetch(options.allowPrivate ?? false, resolve);
      for (const input of options.webhooks) {
        const webhook = checkWebhook(input);
        get(REDACTOR).add(webhook.secret);
        get(EVENTS).addTarget(createTarget(webhook, fetch, get(CLOCK)));
      }
    },
  };
}

function createTarget(
  { name, url, secret, types, format = "standard" }: WebhookOptions,
  fetch: ReturnType<typeof createGuardedFetch>,
  clock: () => Date,
): DeliveryTarget {
  const key = readSecret(secret, name);
  return {
    name: `webhook-${name}`,
    accepts: (event) => types === undefined || types.includes(event.type),
    async send(delivery) {
      const { headers, text } = FORMATS[format](delivery);
      const signed = signedHeaders(delivery.idempotencyKey, clock(), text, key);
      const request = { headers: { ...delivery.headers, ...headers, ...signed }, body: text };
      await postJson(fetch, url, { ...request, signal: delivery.signal });
    },
  };
}

function checkOptions(options: WebhooksOptions): void {
  const refuse = (problem: string): never => {
    throw new PluginError(`Plugin "webhooks" cannot use its options: ${problem}`);
  };
  const unknown = unknownOption(options, NAMES);
  if (unknown !== undefined) refuse(unknown);
  const { webhooks, allowPrivate } = options;
  if (!Array.isArray(webhooks)) refuse("webhooks must be a list");
  if (allowPrivate !== undefined && typeof allowPrivate !== "boolean")
    refuse("allowPrivate must be true or false");
}

function checkWebhook(input: WebhookOptions): WebhookOptions {
  // The value is not repeated: a URL may contain a token.
  return checkFirst(
    WebhookSchema,
    input,
    (problem) => new PluginError(`Webhook "${input.name}": ${problem}`),
  );
}
