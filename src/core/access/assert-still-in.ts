import { type Actor, nameOf } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import type { AccessKeys } from "./access-keys.ts";
import type { People } from "./people.ts";

/** Throws `forbidden` where the key or the person who has asked for something was removed since, or has fewer rights by now. */
export function assertStillIn(
  {
    access,
    people,
  }: { readonly access: Pick<AccessKeys, "callerOf">; readonly people: Pick<People, "assertIn"> },
  by: Actor,
): void {
  if (typeof by === "string" || by.access === undefined) return;
  if (by.proven !== undefined) people.assertIn(by.access, by.role);
  else if (!access.callerOf(by.access)) throw isRemoved(by);
}

function isRemoved(by: Actor): ServiceError {
  return new ServiceError("forbidden", `${nameOf(by)} is no longer valid`, {
    detail: "What it had started has stopped there. Use another key for the rest.",
  });
}
