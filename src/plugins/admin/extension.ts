import { createSharedToken } from "../../core/base/container.ts";
import type { MaybePromise } from "../../core/base/maybe-promise.ts";
import type { Html } from "./views/html.ts";

/** A page of a plugin, under `/admin/x/{path}`, with an entry in the navigation. */
export interface AdminPage {
  /** Lower-case words joined by `-`; a slash before them is ignored. */
  readonly path: string;
  readonly title: string;
  /** What the page shows; build it with `html`, which escapes every value. */
  render(request: AdminPageRequest): MaybePromise<Html>;
  /** The content of the page as data, for clients that request JSON. @default only the title */
  json?(request: AdminPageRequest): MaybePromise<unknown>;
}

export interface AdminPageRequest {
  readonly url: URL;
  /** The caller. */
  readonly actor: string;
}

/** A card on the dashboard. */
export interface AdminCard {
  readonly title: string;
  /** Rendered with each refresh of the dashboard: keep it cheap. */
  render(): MaybePromise<Html>;
}

/**
 * Extends the admin interface: `context.get(ADMIN)` in a plugin that depends on `admin`.
 *
 * @example
 * context.get(ADMIN).addPage({ path: "audit", title: "Audit", render: () => html`<p>${text}</p>` });
 */
export interface AdminExtensions {
  addPage(page: AdminPage): void;
  addCard(card: AdminCard): void;
}

export const ADMIN = createSharedToken<AdminExtensions>("admin");

/** Holds what plugins have added, in order; pages by their path without a slash. */
export class Extensions implements AdminExtensions {
  readonly pages = new Map<string, AdminPage>();
  readonly cards: AdminCard[] = [];

  addPage(page: AdminPage): void {
    const path = page.path.replace(/^\//, "");
    if (!/^[a-z0-9]+(-[a-z0-9]+)*$/.test(path)) {
      throw new Error(`Admin page path "${page.path}" must be lower-case words joined by "-"`);
    }
    if (this.pages.has(path)) throw new Error(`Admin page "${path}" already exists`);
    this.pages.set(path, page);
  }

  addCard(card: AdminCard): void {
    this.cards.push(card);
  }
}
