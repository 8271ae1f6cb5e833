import { serviceCommands } from "../program.ts";
import { checkpoint } from "./checkpoint.ts";
import { exportLines } from "./export.ts";
import { list } from "./list.ts";
import { verify } from "./verify.ts";

/** `svc audit …`: the log of security-relevant actions. */
export const run = serviceCommands({
  name: "svc audit",
  summary: "View, export and verify the audit log of security-relevant actions",
  commands: [list, exportLines, checkpoint, verify],
});
