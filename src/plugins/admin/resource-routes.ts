import type * as v from "valibot";
import type { MaybePromise } from "../../core/base/maybe-promise.ts";
import type { RouteDefinition } from "../../core/http/route.ts";
import type { Need } from "../../core/models/access.ts";
import { adminRoute, seenRoute } from "./admin-route.ts";
import type { AdminParts, SeenParts } from "./parts.ts";
import { type Resource, respond } from "./respond.ts";

type Schema = v.GenericSchema | undefined;
type Input<P extends Schema, Q extends Schema> = Parameters<RouteDefinition<P, Q>["handler"]>[0];

/** The routes of a resource, and how it is found: as its caller sees it, or among everything. */
type ResourceView<P extends Schema, Q extends Schema> = AboutResource<P, Q> &
  (
    | {
        /** Also for callers who see all jobs of some agents. */
        readonly narrows?: "agents";
        /** Finds it; throws if there is none. */
        resource(input: Input<P, Q>): MaybePromise<Resource>;
      }
    | {
        /** Finds it in what the caller sees, so that callers who see a part may call it. */
        seen(input: Input<P, Q>, parts: SeenParts): MaybePromise<Resource | Response>;
      }
  );

interface AboutResource<P extends Schema, Q extends Schema> {
  readonly page?: readonly [path: string, summary: string];
  readonly api?: readonly [path: string, summary: string, description: string];
  readonly needs: Need;
  readonly params?: P;
  readonly query?: Q;
  /** Content of the response. */
  readonly answer: string;
  /** Schema of the JSON response; the document needs it if there is an API route. */
  readonly schema?: v.GenericSchema;
}

/** The routes of a resource: its page, and the same in the API. */
export function resourceRoutes<P extends Schema = undefined, Q extends Schema = undefined>(
  parts: AdminParts,
  view: ResourceView<P, Q>,
): RouteDefinition[] {
  const { params, query } = view;
  const route = (kind: "page" | "api", [path, summary, description]: readonly [string, string, string?]) => {
    const about = {
      method: "GET",
      ...{ path, needs: view.needs, summary, description, params, query },
      hidden: kind === "page",
      responses: { 200: { description: view.answer, schema: view.schema } },
    } as const;
    if ("seen" in view) {
      return seenRoute<P, Q>(parts, {
        ...about,
        handler: async (input, seen) => {
          const found = await view.seen(input, seen);
          return found instanceof Response ? found : respond(parts, input.event, kind, found);
        },
      });
    }
    return adminRoute<P, Q>({
      ...about,
      narrows: view.narrows,
      handler: async (input) => respond(parts, input.event, kind, await view.resource(input)),
    });
  };
  return [...(view.page ? [route("page", view.page)] : []), ...(view.api ? [route("api", view.api)] : [])];
}
