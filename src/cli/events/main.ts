import { serviceCommands } from "../program.ts";
import { list } from "./list.ts";
import { drop, retry } from "./steer.ts";

/** `svc events …`: messages of a running service to its control system. */
export const run = serviceCommands({
  name: "svc events",
  summary: "List, resend or drop messages that a running service could not deliver",
  commands: [list, retry, drop],
});
