import { ServiceError } from "agent-control-service";
import { ADMIN, defineRoute, html, KEYS, type Plugin, ROUTER } from "agent-control-service/plugin";
import * as v from "valibot";

/**
 * A plugin with routes and a page of its own, as anybody may write one. The suite knows nothing of them: they are in the
 * route table, and that is enough to be attacked.
 */
export const guest: Plugin = {
  name: "guest",
  dependsOn: ["admin"],
  setup: ({ get }) => {
    const { apiKey } = get(KEYS);
    const told = {
      200: { description: "What is kept", schema: v.object({ id: v.string(), text: v.string() }) },
    };
    const routes = [
      defineRoute({
        method: "GET",
        path: "/guest/{id}",
        auth: "key",
        needs: "view",
        summary: "Tells the key",
        tag: "Guest",
        params: v.object({ id: v.string() }),
        responses: told,
        handler: ({ params }) => ({ id: params.id, text: `the key is ${apiKey}` }),
      }),
      defineRoute({
        method: "PUT",
        path: "/guest/{id}",
        auth: "session",
        needs: "view",
        summary: "Keeps a text",
        tag: "Guest",
        params: v.object({ id: v.string() }),
        body: v.object({ text: v.string(), tags: v.optional(v.array(v.string())) }),
        responses: told,
        handler: ({ params, body }) => ({ id: params.id, text: body.text }),
      }),
      defineRoute({
        method: "POST",
        path: "/guest",
        auth: "session",
        needs: "view",
        summary: "Takes a body that it does not declare",
        tag: "Guest",
        responses: { 200: { description: "Its length", schema: v.number() } },
        handler: async ({ event }) => (await event.req.text()).length,
      }),
      defineRoute({
        method: "DELETE",
        path: "/guest/{id}",
        auth: "key",
        needs: "view",
        summary: "Fails and says why",
        tag: "Guest",
        params: v.object({ id: v.string() }),
        responses: { 204: { description: "Gone" } },
        handler: ({ params }) => {
          if (params.id === "kept")
            throw new ServiceError("forbidden", `Not with ${apiKey}`, { detail: apiKey });
          return undefined;
        },
      }),
    ];
    for (const route of routes) get(ROUTER).add(route);
    get(ADMIN).addPage({
      path: "guest",
      title: "Guest",
      render: () => html`<p>${apiKey}</p>`,
      json: () => ({ apiKey }),
    });
    get(ADMIN).addCard({ title: "Guest", render: () => html`<p>${apiKey}</p>` });
  },
};
