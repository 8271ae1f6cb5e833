import { ServiceError } from "../../base/errors.ts";
import { streamSnapshot } from "../../store/engine/snapshot.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";

/** Sends a consistent snapshot of the store, while the service keeps running. */
export function backupRoute({ prefix, store, files }: MachineParts): RouteDefinition {
  return defineRoute({
    method: "GET",
    path: `${prefix}/utils/backup`,
    auth: "key",
    needs: "manage",
    summary: "A consistent snapshot of the store's files",
    description:
      "For `svc store backup`: a line of JSON with the names and sizes of the files, then their bytes, one file after another. A last file without a size ends with an empty line, which is not part of it. Where the first line says `contents`, the chunks of files come before that, each after a line with its key and size, until a line `{}`. Data is sent as stored: encrypted parameters stay encrypted.",
    tag: "Store",
    responses: { 200: { description: "The files", contentType: "application/octet-stream" } },
    handler: async () => {
      if (store.snapshot === undefined) {
        throw new ServiceError("not_found", "This store does not support file backups", {
          detail: "Back it up with the store's own tools.",
        });
      }
      return new Response(streamSnapshot(await store.snapshot(), files.storage), {
        headers: { "content-type": "application/octet-stream", "cache-control": "no-store" },
      });
    },
  });
}
