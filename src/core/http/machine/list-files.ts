import * as v from "valibot";
import { FILES_SORT, listFiles } from "../../entities/all-files.ts";
import { ListedFileSchema } from "../../models/file.ts";
import { TimestampSchema } from "../../models/scalars.ts";
import { behindCursor, toCursor } from "../cursor.ts";
import { filesQuery } from "../files-query.ts";
import type { RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";

const keyRoute = routesOf({ auth: "key", tag: "Files" });
const time = v.optional(v.pipe(TimestampSchema, v.transform(Date.parse)));
const QuerySchema = v.object({ ...filesQuery, since: time, until: time });
const FileOfJobSchema = v.object({
  ...ListedFileSchema.entries,
  job_id: v.string(),
  agent_name: v.string(),
});

/** The files of all jobs that the caller sees. */
export function listFilesRoute({ prefix, files, seen }: MachineParts): RouteDefinition {
  return keyRoute({
    method: "GET",
    path: `${prefix}/files`,
    needs: "view",
    narrows: true,
    summary: "List the files of all jobs",
    description:
      "Those of the jobs that the caller sees, the newest first. Filters combine. A content that a job has under several names is listed once, as the artifact that was named last, else as it was named first. A page may have fewer than `limit`; `X-Next-Cursor` is the `after` of the next one, and absent on the last.",
    query: QuerySchema,
    responses: { 200: { description: "The files", schema: v.array(FileOfJobSchema) } },
    handler: async ({ query: { after, ...filter }, caller, event }) => {
      const query = { ...filter, after: behindCursor({ sort: FILES_SORT }, after).after };
      const { items, next } = await listFiles({ files, jobs: seen(caller).jobs }, caller.sight, query);
      if (next) event.res.headers.set("x-next-cursor", toCursor(FILES_SORT, next));
      return items.map(({ file, job }) => ({ ...file, job_id: job.id, agent_name: job.agent_name }));
    },
  });
}
