import type { Journal, RecalledStep } from "./journal.ts";

/** What a run set out to do, and how far it had come: no changes by themselves. */
const INTENTIONS: readonly string[] = ["deploy", "release", "rollback", "recover", "down"];

/** What a run has changed so far, in words, from its journal. */
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
    open.length > 0 ? `Begun, outcome not known: ${open.join(", ")}` : undefined,
  ]
    .filter(Boolean)
    .join(". ");
}
