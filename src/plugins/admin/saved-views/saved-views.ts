import { createHash } from "node:crypto";
import { ServiceError } from "../../../core/base/errors.ts";
import type { Store } from "../../../core/store/store.ts";
import type { SavedView } from "./saved-view-table.ts";

/** Maximum number of views. */
const MOST = 100;

/** The saved views of the list of jobs. */
export class SavedViews {
  readonly #store: Store;
  readonly #clock: () => Date;

  constructor(store: Store, clock: () => Date) {
    this.#store = store;
    this.#clock = clock;
  }

  /** All of them, by name. */
  async list(): Promise<SavedView[]> {
    const { items } = await this.#store.table("SavedView").list({ limit: Number.POSITIVE_INFINITY });
    return items.toSorted((one, other) => one.name.localeCompare(other.name, "en"));
  }

  /** Saves a view; one with the same name, in whatever case, is replaced. */
  async save(given: Pick<SavedView, "name" | "query" | "by">): Promise<SavedView> {
    const id = createHash("sha256").update(given.name.toLowerCase()).digest("hex").slice(0, 16);
    const view = { id, ...given, saved_at: this.#clock().toISOString() };
    await this.#store.transaction(async (tx) => {
      if (await tx.get("SavedView", id)) await tx.change("SavedView", id, () => view);
      else await tx.insert("SavedView", view);
    });
    if ((await this.#store.table("SavedView").ids()).length <= MOST) return view;
    await this.remove(id);
    throw new ServiceError("invalid_request", `There are ${MOST} saved views already`, {
      detail: "Remove one that is no longer needed.",
    });
  }

  /** Whether there was such a view. */
  remove(id: string): Promise<boolean> {
    return this.#store.table("SavedView").remove(id);
  }
}
