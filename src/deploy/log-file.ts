import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { DeployEvent } from "./events.ts";

/** The log of one run: all output of programs, with the steps in between. */
export interface LogFile {
  readonly path: string;
  write(event: DeployEvent): void;
}

/** A log under `.deployment/logs/`, created with its first line. */
export function createLogFile(cwd: string, now: () => Date): LogFile {
  const folder = join(cwd, ".deployment", "logs");
  const stamp = now().toISOString().replace(/[:.]/g, "-");
  const path = join(folder, `deploy-${stamp}.log`);
  return {
    path,
    write(event) {
      const text = toLine(event);
      if (text === undefined) return;
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      appendFileSync(path, `${now().toISOString()} ${text}\n`, { mode: 0o600 });
    },
  };
}

function toLine(event: DeployEvent): string | undefined {
  if (event.type === "step") return `== ${event.title}`;
  if (event.type === "end") return `== ${event.outcome} ${event.note ?? ""}`.trimEnd();
  if (event.type === "output") return event.line;
  if (event.type === "plan") return undefined;
  return `-- ${event.message}`;
}
