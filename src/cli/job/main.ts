import { serviceCommands } from "../program.ts";
import { answer } from "./answer.ts";
import { assign, link } from "./ask-people.ts";
import { remove, restore } from "./delete.ts";
import { files } from "./files.ts";
import { fork } from "./fork.ts";
import { continueHeld, move } from "./held.ts";
import { list } from "./list.ts";
import { pull } from "./pull.ts";
import { replay } from "./replay.ts";
import { revokeTokens } from "./revoke-tokens.ts";
import { show } from "./show.ts";
import { start } from "./start.ts";
import { resume, retry, stop } from "./steer.ts";
import { watch } from "./watch.ts";

/** `svc job …`: jobs of a running service. */
export const run = serviceCommands({
  name: "svc job",
  summary: "Start, follow and manage jobs of a running service",
  commands: [
    start,
    list,
    show,
    files,
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
    revokeTokens,
  ],
});
