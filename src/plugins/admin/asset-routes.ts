import * as v from "valibot";
import { ServiceError } from "../../core/base/errors.ts";
import { defineRoute, type RouteDefinition } from "../../core/http/route.ts";
import type { Assets } from "./assets.ts";

/** Stylesheet, scripts and icons. They are the same for everyone, so they require no key. */
export function assetRoutes(assets: Assets): RouteDefinition[] {
  return [
    defineRoute({
      method: "GET",
      path: "/admin/assets/{hash}/{file}",
      auth: "none",
      needs: "nothing",
      summary: "A stylesheet, script or icon",
      tag: "Admin",
      hidden: true,
      params: v.object({ hash: v.string(), file: v.string() }),
      responses: { 200: { description: "The file" } },
      handler: ({ params, event }) => {
        const answer = assets.answer(
          `${params.hash}/${params.file}`,
          event.req.headers.get("accept-encoding"),
        );
        if (answer) return answer;
        throw new ServiceError("not_found", "File not found", { detail: "Reload the page." });
      },
    }),
  ];
}
