import { ANYONE, type Caller } from "../../core/audit/caller.ts";
import { mayCall } from "../../core/http/rights.ts";
import type { HttpEvent } from "../../core/http/route.ts";
import type { Right } from "../../core/models/access.ts";
import { isIn } from "../../core/models/job-state.ts";
import { figuresOf } from "./pages/figures-of.ts";
import type { AdminParts, SeenParts } from "./parts.ts";

const VIEWERS = new WeakMap<HttpEvent, Caller>();

/** Notes for whom the response to a request is: its frame shows what this caller may see, and no more. */
export function setViewer(event: HttpEvent, caller: Caller): void {
  VIEWERS.set(event, caller);
}

/** For whom the response to a request is; nobody, who may do nothing, until that is known. */
export function viewerOf(event: HttpEvent): Caller {
  return VIEWERS.get(event) ?? ANYONE;
}

/** The parts as a caller sees them. */
export function seenBy(parts: AdminParts, caller: Caller): SeenParts {
  const { jobs, cases, agents, runner, threads } = parts.seen(caller);
  const { options, service, state, seen, settings, clients, log, redactor, clock } = parts;
  const { assets, renderer, extensions, isShared, jobLog, hub, attention, files, answerLinks } = parts;
  return {
    ...{ options, service, state, seen, settings, clients, log, redactor, clock },
    ...{ assets, renderer, extensions, isShared, hub, attention, files, answerLinks },
    jobLog: caller.sight ? logSeenBy(jobs, jobLog) : jobLog,
    ...{ caller, jobs, cases, agents, threads, runner: () => runner },
    figures: figuresOf(parts, { caller, jobs, cases }),
    bulk: parts.bulk.seenBy(caller, () => runner),
    async isJobHeld(id) {
      const job = await parts.jobs.find(id);
      return job !== undefined && isIn(job, "held");
    },
  };
}

/** The lines of jobs without the ids of others. */
function logSeenBy(jobs: SeenParts["jobs"], log: AdminParts["jobLog"]): AdminParts["jobLog"] {
  return {
    async read(id) {
      const lines = await log.read(id);
      const texts = await jobs.textsAsSeen(lines.flatMap(({ message, fields }) => [message, fields]));
      return lines.map((line, at) => ({ ...line, message: texts[2 * at]!, fields: texts[2 * at + 1]! }));
    },
  };
}

/** What a page offers its reader. */
export interface Offered {
  readonly start: boolean;
  readonly answer: boolean;
  readonly operate: boolean;
  readonly manage: boolean;
  /** Pages, and changes, that concern everything. */
  readonly viewAll: boolean;
  readonly operateAll: boolean;
  readonly manageAll: boolean;
}

/** What a caller may do, for buttons and links: what it may not do is not shown. */
export function offeredTo(caller: Caller): Offered {
  const own = (needs: Right) => mayCall(caller, { needs, narrows: true });
  const all = (needs: Right) => mayCall(caller, { needs });
  return {
    ...{ start: own("start"), answer: own("answer"), operate: own("operate"), manage: own("manage") },
    ...{ viewAll: all("view"), operateAll: all("operate"), manageAll: all("manage") },
  };
}
