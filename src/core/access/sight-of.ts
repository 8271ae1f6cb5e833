import type { Role, Sight } from "../models/access.ts";

/** What a key or a person may see, from its role and its limits; `undefined` for everything. */
export function sightOf({
  id,
  role,
  agents,
  workspace,
  names,
}: {
  readonly id: string;
  readonly role: Role;
  readonly agents?: readonly string[] | undefined;
  readonly workspace?: string | undefined;
  /** What questions can be assigned to: its name, and the groups of a person. */
  readonly names: readonly string[];
}): Sight | undefined {
  const isWhole =
    role !== "starter" && role !== "answerer" && agents === undefined && workspace === undefined;
  if (isWhole) return undefined;
  return {
    ...(agents && { agents }),
    ...(workspace !== undefined && { workspace }),
    ...(role === "starter" && { startedBy: id }),
    ...(role === "answerer" && { askedOf: names }),
  };
}
