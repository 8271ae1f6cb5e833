export interface ServerEvent {
  readonly event: string;
  /** Comes back as `Last-Event-ID` when the reader reconnects. */
  readonly id?: number;
  /** Any JSON value: serialized, it never contains a line break. */
  readonly data: unknown;
}

/** One event as text/event-stream writes it (HTML standard, section 9.2). */
export function toEventText({ event, id, data }: ServerEvent): string {
  const idLine = id === undefined ? "" : `id: ${id}\n`;
  return `${idLine}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
