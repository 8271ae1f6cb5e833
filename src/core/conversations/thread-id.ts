import { createHash } from "node:crypto";
import * as v from "valibot";
import { EntityIdSchema } from "../models/scalars.ts";

/** The id of the thread that a client names with an id of its own: that one where it can be the id of a job. */
export function threadIdOf(slug: string, given: string): string {
  if (v.is(EntityIdSchema, given)) return given;
  return `thread-${createHash("sha256").update(`${slug}\n${given}`).digest("base64url")}`;
}
