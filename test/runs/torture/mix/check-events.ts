import type { Findings, Outcome } from "../../../../src/cli/torture/trial.ts";
import type { ReceivedEvent } from "../../../../src/core/agents/run-context.ts";
import type { MixJob } from "./mix-job.ts";
import { eventIds } from "./plans.ts";

type Given = Pick<ReceivedEvent<{ readonly order: string; readonly n: number }>, "id" | "data">;

/** A finished listener has got each of its events once: the first one first, the last one last. */
export function checkListener(job: MixJob, { job: found }: Outcome, findings: Findings): void {
  const { label } = job;
  if (found.status !== "completed") {
    findings.wrong.push(`${label} is ${found.status}, without kills it is completed: ${found.error}`);
    return;
  }
  const { events } = found.result as { readonly events: readonly Given[] };
  const sent = eventIds(job.id);
  const got = events.map(({ id }) => id);
  for (const { id, data } of events) {
    const isIts = data.order === job.id && id === sent[data.n];
    if (!isIts) findings.swapped.push(`${label}: got event ${id} of ${data.order}`);
  }
  for (const id of sent) if (!got.includes(id)) findings.lost.push(`${label}: did not get event ${id}`);
  for (const [at, id] of got.entries())
    if (got.indexOf(id) !== at) findings.doubled.push(`${label}: got event ${id} again`);
  if (got[0] !== sent[0] || got.at(-1) !== sent.at(-1))
    findings.swapped.push(`${label}: got events ${got.join(", ")}; sent were ${sent.join(", ")}`);
}

/** Each event is stored once, as it was sent. */
export function checkReceived(
  received: readonly ReceivedEvent<{ readonly order: string }>[],
  jobs: readonly MixJob[],
  findings: Findings,
): number {
  const stored = new Map<string, number>();
  for (const { id } of received) stored.set(id, (stored.get(id) ?? 0) + 1);
  for (const [id, count] of stored)
    if (count > 1) findings.doubled.push(`event ${id} is stored ${count} times`);
  for (const { id, sent } of jobs)
    for (const event of eventIds(id).slice(0, sent))
      if (!stored.has(event)) findings.lost.push(`event ${event} was acknowledged, and is not stored`);
  return received.length;
}
