import { type Actor, type Caller, nameOf } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import type { StoredCase } from "../../models/case.ts";

type Asking = Pick<StoredCase, "question">;

/**
 * Throws `forbidden` where a question is assigned to somebody else. Links are made for one question and one person by who
 * may assign it, and holders of the API key may do everything.
 */
export function assertAssigned({ id, question }: StoredCase, actor: Actor | undefined): void {
  if (typeof actor !== "object" || isAssignee(actor, { question })) return;
  const to = JSON.stringify(question?.assigned_to);
  throw new ServiceError("forbidden", `Case "${id}" asks ${to}, and not ${nameOf(actor)}`, {
    detail: "Only they answer it. Who may operate jobs can assign it to somebody else.",
  });
}

/**
 * Whether a question may be answered by a caller who may answer some. Who sees only what it has started answers what is
 * asked of nobody or of itself, and is none of several people who must agree.
 */
export function isOpenTo(caller: Caller, { question }: Asking): boolean {
  if (caller.sight?.startedBy === undefined) return true;
  return (question?.approvers ?? 1) === 1 && isAssignee(caller, { question });
}

function isAssignee(caller: Caller, { question }: Asking): boolean {
  const to = question?.assigned_to;
  return to === undefined || isFree(caller) || namesOf(caller).some((name) => isSame(name, to));
}

function namesOf({ kind, sight, name, names }: Caller): readonly string[] {
  // Who may not assign questions cannot do so by the name in a token, either.
  if (kind === "token" && sight?.startedBy !== undefined) return [];
  return names ?? (name === undefined ? [] : [name]);
}

function isFree({ kind, access, proven }: Caller): boolean {
  if (kind === "link" || kind === "system") return true;
  return (kind === "key" || kind === "session") && access === undefined && proven === undefined;
}

/** Addresses are the same in any case; groups and subjects are not. */
function isSame(name: string, to: string): boolean {
  return name === to || (name.includes("@") && name.toLowerCase() === to.toLowerCase());
}
