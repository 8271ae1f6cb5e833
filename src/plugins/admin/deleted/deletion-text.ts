import type { AdminParts } from "../parts.ts";
import { formatDuration } from "../views/format.ts";

/** How long what is deleted now can be restored, for people. */
export function textOfUndo({ service }: Pick<AdminParts, "service">): string {
  const { deletedRetention: kept } = service;
  if (kept === 0) return "This cannot be undone.";
  return kept === null
    ? "It can be restored at any time."
    : `It can be restored for ${formatDuration(kept).replace(/ d$/, " days")}.`;
}
