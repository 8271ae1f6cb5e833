import * as v from "valibot";
import { ServiceError } from "../../core/base/errors.ts";
import type { RouteDefinition } from "../../core/http/route.ts";
import { adminRoute } from "./admin-route.ts";
import type { AdminParts } from "./parts.ts";
import { respond } from "./respond.ts";

/** Pages that plugins added. */
export function pluginPageRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    adminRoute({
      method: "GET",
      path: "/admin/x/{path}",
      needs: "view",
      summary: "A page of a plugin",
      hidden: true,
      params: v.object({ path: v.string() }),
      responses: { 200: { description: "The page", contentType: "text/html" } },
      handler: ({ params, event, actor }) => {
        const page = parts.extensions.pages.get(params.path);
        if (!page) throw new ServiceError("not_found", "Page not found");
        const request = { url: event.url, actor };
        return respond(parts, event, "page", {
          page: "plugin",
          fragment: "plugin",
          json: async () => (page.json ? page.json(request) : { title: page.title }),
          state: async () => ({
            title: page.title,
            content: parts.redactor.text(String(await page.render(request))),
          }),
        });
      },
    }),
  ];
}
