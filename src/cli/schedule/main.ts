import { serviceCommands } from "../program.ts";
import { list } from "./list.ts";
import { pause, resume, runNow } from "./steer.ts";

/** `svc schedule …`: schedules of a running service. */
export const run = serviceCommands({
  name: "svc schedule",
  summary: "List, run, pause and resume the schedules of a running service",
  commands: [list, runNow, pause, resume],
});
