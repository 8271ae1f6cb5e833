/**
 * What a run of a job does. A run is always in one of these states:
 *
 * - `starting`: its slot is taken and its beginning is stored; its record is being read. Answers that are stored
 *   meanwhile are kept for it.
 * - `live`: its handler runs, and the calls of the handler are let through.
 * - `frozen`: the service closes, or another process is to have the handler. Steps that run may still end and be
 *   stored; no further call is let through, and none is rejected.
 * - `ending`: it was asked to end, by a limit, a person, or a record that does not fit. Each call is rejected, and the
 *   handler gets some time to end by itself.
 * - `finishing`: the handler has ended, or was left behind. Nothing more is stored of the run but its end.
 * - `rehearsing`: the handler only shows whether it fits the record. Nothing is done, nothing is stored.
 * - `suspended`: it has left memory, as it only waited. What is left of the handler notices nothing: it must not mistake
 *   that for the end of the job.
 * - `over`: nothing that the handler still does counts. The end of the job is stored, or another run has the job.
 *
 * ```
 *               begin           finish            close
 *   starting ──────────▶ live ──────────▶ finishing ──────────▶ over
 *       │                │  │ end              ▲
 *       │         freeze │  ├─────▶ ending ────┤
 *       │                ▼  │         ▲        │
 *       │             frozen ─────────┴────────┘
 *       └──────▶ rehearsing ──────▶ ending
 * ```
 *
 * Besides, each state but `suspended` leads to `over`, and each in which the run can wait to `suspended`.
 *
 * While somebody decides what becomes of the job, a fence holds the run up, whatever its state is: no call is let
 * through, and nothing of it is stored, until the fence is lifted.
 */
export type RunState =
  | "starting"
  | "live"
  | "frozen"
  | "ending"
  | "finishing"
  | "rehearsing"
  | "suspended"
  | "over";

/** What moves a run from one state to another. */
export type RunMove =
  /** Its record is read, and the handler is called. */
  | "begin"
  | "rehearse"
  | "freeze"
  /** It is asked to end: the first reason counts. */
  | "end"
  /** Its handler has ended, or has had the time to. */
  | "finish"
  /** It is stored that the job is suspended. */
  | "suspend"
  /** Its end is stored, or it no longer has the job. */
  | "close";

const CLOSE = { close: "over" } as const;
const RUNNING = { ...CLOSE, end: "ending", finish: "finishing", suspend: "suspended" } as const;

/** What can move a run in each state, and where to: nothing else does. */
export const RUN_MOVES: Readonly<Record<RunState, Readonly<Partial<Record<RunMove, RunState>>>>> = {
  starting: { ...CLOSE, begin: "live", rehearse: "rehearsing" },
  live: { ...RUNNING, freeze: "frozen" },
  frozen: RUNNING,
  // What is stored counts: the reason to end may have come while the suspension was being stored.
  ending: { ...CLOSE, finish: "finishing", suspend: "suspended" },
  // The reason no longer changes how the job ends, but the handler may have left something behind that waits.
  finishing: { ...CLOSE, end: "finishing", suspend: "suspended" },
  rehearsing: { ...CLOSE, end: "ending" },
  suspended: {},
  over: CLOSE,
};
