import type { CliContext } from "../context.ts";
import { withPrintable } from "../printable.ts";
import { runProgram } from "../program.ts";
import { answer } from "./answer.ts";
import { assign, link } from "./ask-people.ts";
import { remove, restore } from "./delete.ts";
import { fork } from "./fork.ts";
import { continueHeld, move } from "./held.ts";
import { list } from "./list.ts";
import { pull } from "./pull.ts";
import { replay } from "./replay.ts";
import { show } from "./show.ts";
import { start } from "./start.ts";
import { resume, retry, stop } from "./steer.ts";
import { watch } from "./watch.ts";

/** `svc job …`: jobs of a running service. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc job",
      summary: "Start, follow and manage jobs of a running service",
      commands: [
        start,
        list,
        show,
        watch,
        answer,
        assign,
        link,
        stop,
        retry,
        resume,
        continueHeld,
        move,
        fork,
        pull,
        replay,
        remove,
        restore,
      ],
    },
    argv,
    withPrintable(context),
  );
}
