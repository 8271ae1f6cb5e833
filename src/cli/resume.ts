import * as v from "valibot";
import { defineCommand } from "./command.ts";
import { CONNECTION_FLAGS, connect } from "./job/connection.ts";

/** `svc resume`: ends the pause of a service that was started with `--paused`. */
export const resume = defineCommand({
  usage: "resume",
  summary: "Let a service that was started with --paused run its jobs",
  flags: v.object(CONNECTION_FLAGS),
  async run({ flags, context }) {
    const client = await connect(flags, context);
    const answer = await client.post<{ queued: number }>("/utils/resume", {});
    const jobs = answer.queued === 1 ? "1 job waits" : `${answer.queued} jobs wait`;
    context.print(flags.json ? JSON.stringify(answer, null, 2) : `The service runs jobs; ${jobs} for a turn`);
    return 0;
  },
});
