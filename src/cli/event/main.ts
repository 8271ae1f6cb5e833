import { serviceCommands } from "../program.ts";
import { list } from "./list.ts";
import { send } from "./send.ts";

/** `svc event …`: events for the jobs of a running service that wait for them. */
export const run = serviceCommands({
  name: "svc event",
  summary: "Send events to the jobs of a running service, list received ones",
  commands: [send, list],
});
