import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { VERSION } from "../core/http/service-state.ts";
import { chat } from "./chat.ts";
import { check } from "./check.ts";
import type { Command, CommandGroup } from "./command.ts";
import { completion } from "./completion.ts";
import type { CliContext } from "./context.ts";
import { control } from "./control.ts";
import { dev } from "./dev.ts";
import { init } from "./init.ts";
import { login } from "./login.ts";
import { logout } from "./logout.ts";
import { open } from "./open.ts";
import { runProgram } from "./program.ts";
import { resume } from "./resume.ts";
import { start } from "./start.ts";
import { torture } from "./torture.ts";

const COMMANDS: readonly Command[] = [
  start,
  dev,
  resume,
  init,
  open,
  login,
  logout,
  chat,
  check,
  control,
  torture,
  completion,
];

const GROUPS: readonly CommandGroup[] = [
  {
    name: "agent",
    summary: "List and show the agents of a running service",
    load: () => import("./agent/main.ts"),
  },
  {
    name: "job",
    summary: "Start, follow and manage jobs of a running service",
    load: () => import("./job/main.ts"),
  },
  {
    name: "schedule",
    summary: "List, run, pause and resume the schedules of a running service",
    load: () => import("./schedule/main.ts"),
  },
  {
    name: "event",
    summary: "Send events to the jobs of a running service, list received ones",
    load: () => import("./event/main.ts"),
  },
  {
    name: "store",
    summary: "Back up, export, check and repair the data of a service",
    load: () => import("./store/main.ts"),
  },
  {
    name: "events",
    summary: "List, resend or drop messages that a running service could not deliver",
    load: () => import("./events/main.ts"),
  },
  {
    name: "audit",
    summary: "View, export and verify the audit log",
    load: () => import("./audit/main.ts"),
  },
  {
    name: "access",
    summary: "Make, list, rotate and remove keys with fewer rights than the API key",
    load: () => import("./access/main.ts"),
  },
  {
    name: "deploy",
    summary: "Deploy the service, manage it, test it in local containers",
    load: () => import("./deploy/main.ts"),
  },
];

const DOCS = fileURLToPath(new URL("../../docs/index.md", import.meta.url));

/** Where the docs are that came with this version: below the project, where it has the package. */
function whereDocsAre(cwd: string): string {
  const path = relative(cwd, DOCS);
  return path.startsWith("..") ? DOCS : path;
}

/** Runs `svc` with its arguments; resolves with the exit code. */
export function main(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc",
      summary: `svc ${VERSION}: runs agents as a service`,
      version: VERSION,
      docs: () => whereDocsAre(context.cwd),
      commands: COMMANDS,
      groups: GROUPS,
      project: async (names) => (await import("./project-commands.ts")).findProjectCommands(context, names),
    },
    argv,
    context,
  );
}
