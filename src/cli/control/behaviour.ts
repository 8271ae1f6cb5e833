import * as v from "valibot";

/**
 * How the control system answers: a status such as `503`; `hang` never answers; `reset` drops the connection
 * immediately; `cut` accepts the message, then drops the connection in the middle of the answer; `slow`
 * answers after two seconds.
 */
export const ModeSchema = v.union([
  v.picklist(["ok", "hang", "reset", "cut", "slow"]),
  v.pipe(
    v.string(),
    v.regex(/^[3-5]\d\d$/, "must be ok, hang, reset, cut, slow or a status from 300 to 599"),
  ),
]);
export type Mode = v.InferOutput<typeof ModeSchema>;

export const OrderSchema = v.object({
  mode: ModeSchema,
  /** Number of messages that this applies to; later ones are answered normally. */
  times: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  /** Value of `Retry-After`. */
  retry_after: v.optional(v.union([v.string(), v.number()])),
  /** Only for messages whose text contains this. */
  match: v.optional(v.string()),
});
export type Order = v.InferOutput<typeof OrderSchema>;

/** Decides how the next message is answered. */
export class Behaviour {
  #order: Order;
  #left: number;

  constructor(order: Order) {
    this.#order = order;
    this.#left = order.times ?? Number.POSITIVE_INFINITY;
  }

  get order(): Order {
    return this.#order;
  }

  obey(order: Order): void {
    this.#order = order;
    this.#left = order.times ?? Number.POSITIVE_INFINITY;
  }

  next(text: string): Order {
    if (this.#left <= 0 || (this.#order.match && !text.includes(this.#order.match))) return { mode: "ok" };
    this.#left--;
    return this.#order;
  }
}
