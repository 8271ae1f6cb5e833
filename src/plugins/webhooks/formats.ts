import { wellFormed } from "../../core/base/well-formed.ts";
import type { Delivery, NewEvent } from "../../core/delivery/events.ts";

/** An event as it is sent. */
interface Written {
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** The forms in which a receiver can have its events. */
export const FORMATS = {
  standard: ({ body, createdAt: timestamp }: Delivery): Written => {
    const { type, source, object_type, details } = body as NewEvent;
    const text = JSON.stringify({ type, timestamp, data: { source, object_type, details } });
    return { headers: {}, text };
  },
  /** CloudEvents 1.0: all of it is in the body. */
  cloudevents: (delivery: Delivery): Written => ({
    headers: { "content-type": "application/cloudevents+json; charset=utf-8" },
    text: JSON.stringify({ ...attributesOf(delivery), ...dataOf(delivery) }),
  }),
  /** CloudEvents 1.0: the attributes are headers, the body is the data. */
  "cloudevents-binary": (delivery: Delivery): Written => {
    const { datacontenttype, ...attributes } = attributesOf(delivery);
    const headers = Object.entries(attributes).map(([name, value]) => [`ce-${name}`, toHeader(value)]);
    return {
      headers: { ...Object.fromEntries(headers), "content-type": datacontenttype },
      text: JSON.stringify(dataOf(delivery).data),
    };
  },
} as const;

function attributesOf({ body, idempotencyKey, createdAt, headers: { traceparent, tracestate } }: Delivery) {
  const { type, source } = body as NewEvent;
  return {
    specversion: "1.0",
    id: idempotencyKey,
    source: toUri(source),
    type,
    time: createdAt,
    datacontenttype: "application/json",
    ...(traceparent !== undefined && { traceparent }),
    ...(tracestate !== undefined && { tracestate }),
  };
}

function dataOf({ body }: Delivery) {
  const { source, object_type, details } = body as NewEvent;
  return { data: { source, object_type, details } };
}

/** What an event comes from, as a reference of a URI: `/agent/greeter/job/job-1`. */
function toUri(source: NewEvent["source"]): string {
  const parts = Object.entries(source).filter(([, value]) => typeof value === "string");
  return (
    parts.map(([name, value]) => `/${name}/${encodeURIComponent(wellFormed(String(value)))}`).join("") || "/"
  );
}

/** A value in a header, as the HTTP binding of CloudEvents writes it. */
function toHeader(value: string): string {
  return wellFormed(value).replaceAll(/[^\x21\x23\x24\x26-\x7e]/gu, (character) =>
    encodeURIComponent(character),
  );
}
