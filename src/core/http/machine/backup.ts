import { ServiceError } from "../../base/errors.ts";
import { streamSnapshot } from "../../store/snapshot.ts";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";

/** Sends the store as of one moment, while the service goes on. */
export function backupRoute({ prefix, store }: MachineParts): RouteDefinition {
  return defineRoute({
    method: "GET",
    path: `${prefix}/utils/backup`,
    auth: "key",
    summary: "The files of the store, as of one moment",
    description:
      "For `svc store backup`: a line of JSON with the names and sizes of the files, then their bytes, one file behind the other. What is stored is sent as it is, encrypted parameters encrypted.",
    tag: "Store",
    responses: { 200: { description: "The files", contentType: "application/octet-stream" } },
    handler: async () => {
      if (store.snapshot === undefined) {
        throw new ServiceError("not_found", "This store has no files to back up", {
          detail: "Back it up with the tools of its own.",
        });
      }
      return new Response(streamSnapshot(await store.snapshot()), {
        headers: { "content-type": "application/octet-stream", "cache-control": "no-store" },
      });
    },
  });
}
