import * as v from "valibot";
import { FILE_GROUPS } from "../models/file-kind.ts";
import { EntityIdSchema } from "../models/scalars.ts";
import { cursorQuery } from "./cursor.ts";
import { pageQuery } from "./query.ts";

/** What files of all jobs are listed by, besides the time. */
export const filesQuery = {
  limit: pageQuery({ max: 100, default: 50 }).limit,
  ...cursorQuery,
  /** A part of a name, an artifact's name, or a title. */
  search: v.optional(v.pipe(v.string(), v.maxLength(200))),
  /** Slug of the agent whose jobs have them. */
  agent_name: v.optional(v.pipe(v.string(), v.maxLength(200))),
  job_id: v.optional(EntityIdSchema),
  /** What they are: `picture`, `pdf`, `recording` (audio and video), `data` (CSV and JSON), `text`, `page` (HTML and SVG) or `other`. */
  kind: v.optional(v.picklist(FILE_GROUPS)),
  /** What a job has them for: as an `artifact`, as a `field`, as an `answer`, or as what a `step` has made. */
  origin: v.optional(v.picklist(["artifact", "field", "answer", "step"])),
};
