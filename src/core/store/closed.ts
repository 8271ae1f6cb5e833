import { ServiceError } from "../base/errors.ts";

/**
 * Why nobody may write to a store: a move left it, or has not finished filling it. It is stored with the store itself,
 * so that no start can miss it.
 */
export interface Mark {
  /** Id of the move. */
  readonly move: string;
  /**
   * A source is `moving`, then `moved`. A target is `filled` from its first moment on until the source is `moved`; it is
   * `undone` after a move that was undone.
   */
  readonly state: "moving" | "moved" | "filled" | "undone";
  /** Where the other store is, without a password. */
  readonly other: string;
  /** When, ISO 8601. */
  readonly at: string;
}

/** A store that must not be written to. */
export class ClosedStoreError extends ServiceError {
  readonly mark: Mark;

  constructor(mark: Mark) {
    const { message, detail } = describeMark(mark);
    super("storage_error", message, { detail });
    this.mark = mark;
  }
}

/** What a mark means, and what to do. */
export function describeMark({ state, other, at }: Mark): { message: string; detail: string } {
  const day = `${at.slice(0, 19).replace("T", " ")} UTC`;
  switch (state) {
    case "moving":
      return {
        message: `The data of this store is being moved to ${other}, since ${day}`,
        detail:
          "If that move was interrupted, run the same `svc store move` again to finish it, or with --undo to stay here.",
      };
    case "moved":
      return {
        message: `The data of this store was moved to ${other}, on ${day}`,
        detail:
          "Start the service with that store: SERVICE_DATABASE_URL for a database, SERVICE_STORAGE_URL for a storage, SERVICE_DATA_DIR for a folder. To bring the data back, move it from there into another empty place. To use the data here as it was then, run the same `svc store move` with --undo.",
      };
    case "filled":
      return {
        message: `This store is a copy of ${other}, from a move that is not finished`,
        detail:
          "If the move was interrupted, run the same `svc store move` again to finish it, or with --undo.",
      };
    case "undone":
      return {
        message: `The data of this store is in ${other}: its move to here was undone`,
        detail: "Start the service with that store. The copy here can be deleted.",
      };
  }
}
