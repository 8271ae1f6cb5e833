import * as v from "valibot";
import type { Job } from "../../core/models/job.ts";
import type { Schedule } from "../../core/models/schedule.ts";
import { type CommandInput, defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";

const flags = v.object(CONNECTION_FLAGS);

/** `svc schedule run`: starts a job of a schedule now. */
export const runNow = defineCommand({
  usage: "run <schedule>",
  summary: "Start a job of a schedule now, also while the schedule is paused",
  flags,
  examples: ["svc schedule run nightly"],
  run: (input) =>
    steer<Job>(input, "run", ({ id }) => `Job ${id} was started. Follow it: svc job watch ${id}`),
});

/** `svc schedule pause`: a schedule starts no jobs until it is resumed. */
export const pause = defineCommand({
  usage: "pause <schedule>",
  summary: "Pause a schedule; times during the pause are not caught up later",
  flags,
  examples: ["svc schedule pause nightly"],
  run: (input) => steer<Schedule>(input, "pause", ({ id }) => `Schedule ${id} is paused`),
});

/** `svc schedule resume`: a paused schedule starts jobs again. */
export const resume = defineCommand({
  usage: "resume <schedule>",
  summary: "Resume a paused schedule",
  flags,
  examples: ["svc schedule resume nightly"],
  run: (input) =>
    steer<Schedule>(input, "resume", ({ id, next }) => `Schedule ${id} is resumed; next ${next ?? "never"}`),
});

async function steer<T>(
  { args, flags: given, context }: CommandInput<typeof flags>,
  verb: string,
  describe: (answer: T) => string,
): Promise<number> {
  const client = await connect(given, context);
  const answer = await client.post<T>(`/schedules/${encodeURIComponent(args[0]!)}/${verb}`, {});
  context.print(given.json ? JSON.stringify(answer, null, 2) : describe(answer));
  return 0;
}
