import { requestCommand } from "./job/request-command.ts";

/** `svc resume`: ends the pause of a service that was started with `--paused`. */
export const resume = requestCommand({
  usage: "resume",
  summary: "Let a service that was started with --paused run its jobs",
  ask: (client) => client.post<{ queued: number }>("/utils/resume", {}),
  show: ({ queued }) =>
    `The service runs jobs; ${queued === 1 ? "1 job waits" : `${queued} jobs wait`} for a turn`,
});
