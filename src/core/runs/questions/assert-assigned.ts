import { type Actor, type Caller, nameOf } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import type { StoredCase } from "../../models/case.ts";

/**
 * Throws `forbidden` where a question is assigned to somebody else. Links are made for one question and one person by who
 * may assign it, and holders of the API key may do everything.
 */
export function assertAssigned({ id, question }: StoredCase, actor: Actor | undefined): void {
  const to = question?.assigned_to;
  if (to === undefined || typeof actor !== "object" || isFree(actor)) return;
  const names = actor.names ?? (actor.name === undefined ? [] : [actor.name]);
  if (names.some((name) => isSame(name, to))) return;
  throw new ServiceError("forbidden", `Case "${id}" asks ${JSON.stringify(to)}, and not ${nameOf(actor)}`, {
    detail: "Only they answer it. Who may operate jobs can assign it to somebody else.",
  });
}

function isFree({ kind, access, proven }: Caller): boolean {
  if (kind === "link" || kind === "system") return true;
  return (kind === "key" || kind === "session") && access === undefined && proven === undefined;
}

/** Addresses are the same in any case; groups and subjects are not. */
function isSame(name: string, to: string): boolean {
  return name === to || (name.includes("@") && name.toLowerCase() === to.toLowerCase());
}
