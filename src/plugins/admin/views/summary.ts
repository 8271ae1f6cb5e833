import { countOf } from "../../../core/base/count-of.ts";
import type { WaterfallView } from "./waterfall.ts";

/** What follows the duration of a timeline: how long the job waited, and how long the service was down. */
export function summaryOf({
  waited,
  interruptions,
  downtime,
  foldedForPerson,
  foldedRest,
}: WaterfallView): string {
  const times = interruptions > 1 ? ` in ${countOf(interruptions, "interruption")}` : "";
  const other = foldedForPerson ? "other waiting" : "waiting";
  return [
    waited && `${waited} waiting for a person${foldedForPerson ? " (folded)" : ""}`,
    downtime && `down for ${downtime}${times}`,
    foldedRest && `${foldedRest} of ${other} folded`,
  ]
    .map((part) => (part ? `, ${part}` : ""))
    .join("");
}
