import type { Journal, RecalledStep } from "./journal.ts";

/** What a run intends to do, and its progress: not changes in themselves. */
const INTENTIONS: readonly string[] = ["deploy", "release", "rollback", "recover", "down"];

/** What a run has changed so far, as text, from its journal. */
export function standing(journal: Journal): string {
  const steps = [...journal.unfinished, ...journal.steps].filter(({ step }) => !INTENTIONS.includes(step));
  const names = (phase: RecalledStep["phase"]) => [
    ...new Set(steps.filter((one) => one.phase === phase).map(({ step }) => step)),
  ];
  const done = names("end");
  const open = names("begin").filter((name) => !done.includes(name));
  if (done.length === 0 && open.length === 0) return "Nothing was changed";
  return [
    done.length > 0 ? `Done: ${done.join(", ")}` : undefined,
    open.length > 0 ? `Started, outcome unknown: ${open.join(", ")}` : undefined,
  ]
    .filter(Boolean)
    .join(". ");
}
