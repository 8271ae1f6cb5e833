import type { Event } from "@ag-ui/core";

/** An event, with its type as the text that is sent. */
export type Sent = { readonly type: `${Event["type"]}` } & Record<string, unknown>;
