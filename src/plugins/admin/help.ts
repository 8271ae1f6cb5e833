import { defineRoute, type RouteDefinition } from "../../core/http/route.ts";
import type { AdminParts } from "./parts.ts";
import { respond } from "./respond.ts";
import { html } from "./views/html.ts";

const KEYS: readonly (readonly [keys: readonly string[], does: string])[] = [
  [["/"], "Search"],
  [["j", "k"], "Next and previous row"],
  [["Enter"], "Open the row"],
  [["x"], "Select the row"],
  [["n", "p"], "Next and previous page of a list"],
  [["g", "d"], "Dashboard"],
  [["g", "j"], "Jobs"],
  [["g", "c"], "Cases"],
  [["g", "i"], "Inbox"],
  [["g", "a"], "Agents"],
  [["g", "l"], "Console"],
  [["g", "s"], "Server"],
  [["Esc"], "Close a dialog, leave the search"],
  [["?"], "This help"],
];

/** What the keys do. */
export function helpRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    defineRoute({
      method: "GET",
      path: "/admin/help",
      auth: "session",
      summary: "Keyboard help",
      tag: "Admin",
      hidden: true,
      responses: { 200: { description: "The page", contentType: "text/html" } },
      handler: ({ event }) =>
        respond(parts, event, "page", {
          page: "help",
          fragment: "help",
          json: () => ({ items: KEYS.map(([keys, does]) => ({ keys, does })) }),
          state: () => ({
            keys: KEYS.map(([keys, does]) => ({
              keys: html`${keys.map((key) => html`<kbd>${key}</kbd> `)}`.toString(),
              does,
            })),
          }),
        }),
    }),
  ];
}
