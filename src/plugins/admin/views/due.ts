import { formatRelative, toTimeView } from "./format.ts";
import { type Html, html } from "./html.ts";

/** When an answer is due; nothing where it may take for ever. */
export function duePiece(deadline: string | null | undefined, now: Date): Html {
  const time = toTimeView(deadline, now);
  if (!time) return html``;
  const late = new Date(time.iso) <= now;
  return html`<span class="due${late ? " late" : ""}" title="${time.full}">${late ? "overdue since" : "due"} ${formatRelative(new Date(time.iso), now).replace(/ ago$/, "")}</span>`;
}
