import * as v from "valibot";
import type { Caller } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import { ListedFileSchema, Sha256Schema } from "../../models/file.ts";
import { EntityIdSchema } from "../../models/scalars.ts";
import { fileResponse } from "../file-response.ts";
import type { RouteDefinition } from "../route.ts";
import { viewOf } from "../token-view.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";
import { JobPathSchema } from "./schemas.ts";

const keyRoute = routesOf({ auth: "key", tag: "Files", needs: "view", narrows: true });
const PathSchema = v.object({ id: EntityIdSchema, sha256: Sha256Schema });
const QuerySchema = v.object({
  /** One of the names that the job has it under. */
  name: v.optional(v.string()),
  inline: v.optional(v.picklist(["true", "false"]), "false"),
});

/** The files of a job: what it was given, and what it has made. */
export function jobFileRoutes({ prefix, files, seen }: MachineParts): RouteDefinition[] {
  return [
    keyRoute({
      method: "GET",
      path: `${prefix}/jobs/{id}/files`,
      token: { scope: "record", job: "id" },
      summary: "List the files of a job",
      description:
        "Those in its fields and in answers to its questions, and those that its steps have made, oldest first.",
      params: JobPathSchema,
      responses: { 200: { description: "The files", schema: v.array(ListedFileSchema) } },
      handler: async ({ params, caller }) => {
        const { id } = await seen(caller).jobs.get(params.id);
        return files.list(id);
      },
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/jobs/{id}/files/{sha256}`,
      token: { scope: "status", job: "id" },
      summary: "Download a file of a job",
      description:
        "With `Range`, a part of it. It is sent as a download, which no browser runs; with `inline=true`, images, PDF, audio, video and text are shown.",
      params: PathSchema,
      query: QuerySchema,
      responses: {
        200: { description: "The content", contentType: "application/octet-stream" },
        206: { description: "The part that was asked for", contentType: "application/octet-stream" },
      },
      handler: async ({ params, query, event, caller }) => {
        const { id, result } = await seen(caller).jobs.get(params.id);
        assertInResult(caller, result, params.sha256);
        const found = await files.ofJob(id, params.sha256);
        const { names } = found.file;
        const named = names.find(({ name }) => name === query.name) ?? names[0]!;
        const isInline = query.inline === "true";
        return fileResponse(event.req, { ...found, named, isInline }, (range) =>
          files.read(found.content, range),
        );
      },
    }),
  ];
}

/** Who is shown the state of a job gets the files of its result, not those that it was given or that steps have made. */
function assertInResult(caller: Caller, result: unknown, sha256: string): void {
  if (viewOf(caller) !== "status" || JSON.stringify(result ?? null).includes(sha256)) return;
  throw new ServiceError("forbidden", "The token shows the files of the job's result only", {
    detail: 'Make one with the scope "record" for the others.',
  });
}
