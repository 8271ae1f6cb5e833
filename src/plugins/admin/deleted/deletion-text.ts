import type { AdminParts } from "../parts.ts";
import { formatDuration } from "../views/format.ts";

/** How long what is deleted now can be restored, for people. */
export function textOfUndo({ service }: Pick<AdminParts, "service">): string {
  const { deletedRetention: kept } = service;
  if (kept === 0) return "This cannot be undone.";
  return kept === null ? "It can be restored at any time." : `It can be restored for ${inDays(kept)}.`;
}

/** How long what a list shows can be restored; a list may show what was deleted while the time was longer. */
export function textOfRestoring({ service }: Pick<AdminParts, "service">): string {
  const { deletedRetention: kept } = service;
  if (kept === null) return "They can be restored at any time.";
  if (kept === 0) return "What is deleted now is deleted permanently.";
  return `They can be restored for ${inDays(kept)} after they were deleted.`;
}

function inDays(milliseconds: number): string {
  return formatDuration(milliseconds).replace(/^1 d$/, "1 day").replace(/ d$/, " days");
}
