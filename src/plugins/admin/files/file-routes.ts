import * as v from "valibot";
import { fileResponse } from "../../../core/http/file-response.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { Sha256Schema } from "../../../core/models/file.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { seenRoute } from "../admin-route.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { resourceRoutes } from "../resource-routes.ts";
import { pathTo } from "../views/pieces.ts";
import { previewFiles } from "./file-views.ts";
import { findShownFiles } from "./shown-files.ts";

const PathSchema = v.object({ id: EntityIdSchema, sha256: Sha256Schema });
const name = v.optional(v.pipe(v.string(), v.maxLength(500)));

/** A file of a job: its page, and its content for our pages. */
export function fileRoutes(parts: AdminParts): RouteDefinition[] {
  const { files } = parts;
  return [
    seenRoute(parts, {
      method: "GET",
      path: "/admin/jobs/{id}/files/{sha256}",
      needs: "view",
      summary: "Content of a file of a job",
      hidden: true,
      params: PathSchema,
      query: v.object({ name, inline: v.optional(v.picklist(["true", "false"]), "false") }),
      responses: { 200: { description: "The content", contentType: "application/octet-stream" } },
      handler: async ({ params, query, event }, seen) => {
        await assertShown(seen, params);
        const found = await files.ofJob(params.id, params.sha256);
        const shown = { named: nameOf(found.file.names, query.name), isInline: query.inline === "true" };
        return fileResponse(event.req, { ...found, ...shown, isFramed: true }, (range) =>
          files.read(found.content, range),
        );
      },
    }),
    ...resourceRoutes(parts, {
      needs: "view",
      page: ["/admin/jobs/{id}/files/{sha256}/view", "Page of a file of a job"],
      params: PathSchema,
      query: v.object({ name }),
      answer: "The file",
      seen: async ({ params, query }, seen) => {
        const job = await seen.jobs.get(params.id);
        const { file } = await files.ofJob(job.id, params.sha256);
        const named = nameOf(file.names, query.name);
        const value = { name: named.name, type: named.type, size: file.size, sha256: file.sha256 };
        return {
          ...{ page: "file", fragment: "file", json: () => value },
          state: async () => {
            const [shown] = await previewFiles(files, job.id, [value]);
            return {
              file: shown,
              job: { name: job.name, href: pathTo("jobs", job.id) },
            };
          },
        };
      },
    }),
  ];
}

/** Throws where a caller sees neither the job nor a question that shows the file. */
async function assertShown(seen: SeenParts, { id, sha256 }: v.InferOutput<typeof PathSchema>): Promise<void> {
  if (await seen.jobs.find(id)) return;
  const { items } = await seen.cases.list({ where: { job_id: id, status: "awaiting" } });
  for (const item of items)
    if ((await findShownFiles(seen, item)).some((file) => file.sha256 === sha256)) return;
  await seen.jobs.get(id);
}

/** The name of a content that was asked for, or its first one. */
export function nameOf<Named extends { readonly name: string }>(
  names: readonly Named[],
  wanted: string | undefined,
): Named {
  return names.find((one) => one.name === wanted) ?? names[0]!;
}
