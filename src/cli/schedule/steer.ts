import type { Job } from "../../core/models/job.ts";
import type { Schedule } from "../../core/models/schedule.ts";
import { requestCommand } from "../job/request-command.ts";

/** `svc schedule run`: starts a job of a schedule now. */
export const runNow = steering({
  usage: "run <schedule>",
  summary: "Start a job of a schedule now, also while the schedule is paused",
  show: ({ id }: Job) => `Job ${id} was started. Follow it: svc job watch ${id}`,
});

/** `svc schedule pause`: a schedule starts no jobs until it is resumed. */
export const pause = steering({
  usage: "pause <schedule>",
  summary: "Pause a schedule; times during the pause are not caught up later",
  show: ({ id }: Schedule) => `Schedule ${id} is paused`,
});

/** `svc schedule resume`: a paused schedule starts jobs again. */
export const resume = steering({
  usage: "resume <schedule>",
  summary: "Resume a paused schedule",
  show: ({ id, next }: Schedule) => `Schedule ${id} is resumed; next ${next ?? "never"}`,
});

interface Steering<T> {
  readonly usage: string;
  readonly summary: string;
  show(answer: T): string;
}

function steering<T>(about: Steering<T>) {
  const [verb] = about.usage.split(" ");
  return requestCommand({
    ...about,
    examples: [`svc schedule ${verb} nightly`],
    ask: (client, { args }) => client.post<T>(`/schedules/${encodeURIComponent(args[0]!)}/${verb}`, {}),
  });
}
