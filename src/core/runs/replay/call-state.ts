/**
 * What became of a call of a handler in the present run. A call is always in one of these states:
 *
 * - `open`: the handler has not issued it, and its end is not stored. Something of it may be recorded: that it began to
 *   wait, or tries that failed.
 * - `settled`: its end is stored, and the handler has not issued it: replay waits for it at its place in the log.
 * - `skipped`: the same, where the handler continues without it.
 * - `loose`: the same, where a person has continued the job without it.
 * - `issued`: the handler has issued it, and its end is not stored: it waits until the record is replayed, or is under
 *   way.
 * - `asking`: the same, where its end will be checked before the handler gets it, as the answer of a person is.
 * - `due`: issued, and its end is stored. The handler gets it when all that was stored before was given to it. A call that
 *   was skipped or loose is given `unordered`: as soon as possible.
 * - `held`: due, and its end is being checked.
 * - `delivered`: the handler has its end.
 *
 * ```
 *            issue            settle          deliver
 *   open ────────────▶ issued ───────▶ due ────────────▶ delivered
 *    │ settle           ▲  │ hold     ▲ ▲ │ hold
 *    ▼                  │  ▼  settle  │ │ ▼
 *   settled ─────┐   asking ──────────┼─┼▶ held
 *    │ skip      │ issue              │ │
 *    ▼           └────────────────────┘ │
 *   skipped, loose ─────────────────────┘
 *                         issue
 * ```
 *
 * An end may turn out to be none, as an answer that does not fit, or a failure that is tried again: `reopen` leads back.
 */
export type CallState =
  | "open"
  | "settled"
  | "skipped"
  | "loose"
  | "issued"
  | "asking"
  | "due"
  | "held"
  | "delivered";

/** What moves a call from one state to another. */
export type CallMove =
  /** The handler makes the call. */
  | "issue"
  /** Its end is stored, or is read from the record. */
  | "settle"
  /** Its end is none any longer. */
  | "reopen"
  /** The handler has had everything that was stored before its end, and has not issued it. */
  | "skip"
  /** A person continues the job without what was recorded there. */
  | "loosen"
  /** Its end is to be checked before the handler gets it. */
  | "hold"
  /** It is checked. */
  | "release"
  /** The handler gets its end. */
  | "deliver";

/** What can move a call in each state, and where to: nothing else does. */
export const CALL_MOVES: Readonly<Record<CallState, Readonly<Partial<Record<CallMove, CallState>>>>> = {
  open: { issue: "issued", settle: "settled" },
  settled: { issue: "due", reopen: "open", skip: "skipped", loosen: "loose" },
  skipped: { issue: "due" },
  loose: { issue: "due", reopen: "open" },
  issued: { settle: "due", hold: "asking" },
  asking: { settle: "held", release: "issued" },
  due: { deliver: "delivered", hold: "held", reopen: "issued" },
  held: { release: "due", reopen: "asking" },
  delivered: {},
};
