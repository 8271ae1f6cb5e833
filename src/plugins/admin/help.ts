import type { RouteDefinition } from "../../core/http/route.ts";
import type { AdminParts } from "./parts.ts";
import { resourceRoutes } from "./resource-routes.ts";
import { html } from "./views/html.ts";

const KEYS: readonly (readonly [keys: readonly string[], does: string])[] = [
  [["Ctrl K", "⌘ K"], "Find a page, agent, job, case, question, saved view or action"],
  [["/"], "Search"],
  [["j", "k"], "Next and previous row"],
  [["Enter"], "Open the row"],
  [["x"], "Select the row"],
  [["y", "n", "e"], "In the inbox: yes, no, message"],
  [["Ctrl Enter", "⌘ Enter"], "In the inbox: send, open the next question"],
  [["n", "p"], "Next and previous page of a list"],
  [["g", "d"], "Dashboard"],
  [["g", "j"], "Jobs"],
  [["g", "c"], "Cases"],
  [["g", "i"], "Inbox"],
  [["g", "a"], "Agents"],
  [["g", "l"], "Console"],
  [["g", "f"], "Failures by reason"],
  [["g", "t"], "Files"],
  [["g", "s"], "Server"],
  [["Esc"], "Close a dialog, leave the search field"],
  [["?"], "This help"],
];

/** Keyboard shortcuts. */
export function helpRoutes(parts: AdminParts): RouteDefinition[] {
  return resourceRoutes(parts, {
    needs: "nothing",
    page: ["/admin/help", "Keyboard help"],
    answer: "The page",
    resource: () => ({
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
  });
}
