import { serviceCommands } from "../program.ts";
import { list } from "./list.ts";
import { pause, resume } from "./pause.ts";
import { show } from "./show.ts";

/** `svc agent …`: agents of a running service. */
export const run = serviceCommands({
  name: "svc agent",
  summary: "List, show, pause and resume the agents of a running service",
  commands: [list, show, pause, resume],
});
