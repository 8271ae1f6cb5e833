import type { AgentRegistry } from "../../agents/registry.ts";
import type { Redactor } from "../../base/redactor.ts";
import type { Cases } from "../../entities/cases.ts";
import type { Files } from "../../entities/files.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { FileValue } from "../../models/file.ts";
import type { StoredJob } from "../../models/job.ts";
import { holdOf } from "../../models/job-state.ts";
import type { Scheduler } from "../queue/scheduler.ts";
import type { Turns } from "../queue/turns.ts";
import type { HandlerParts } from "../replay/handler-context.ts";
import { readsOf } from "../replay/reads-of.ts";
import type { Rehearsed } from "../replay/rehearsal.ts";
import { RunRecord } from "../replay/run-record.ts";
import { rehearse } from "./rehearse.ts";

/** Jobs that are tried at the same time: each try has a whole log in memory. */
const AT_ONCE = 4;

interface HeldTriesParts extends HandlerParts {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly redactor: Redactor;
  readonly scheduler: Scheduler;
  readonly turns: Turns;
  readonly files?: Files | undefined;
}

/** Tries whether held and suspended jobs fit the code that is here. */
export class HeldTries {
  readonly #parts: HeldTriesParts;
  #tried = 0;
  /** The last try of each line: those of one line follow each other. */
  readonly #lines: Promise<void>[] = [];

  constructor(parts: HeldTriesParts) {
    this.#parts = parts;
  }

  /** Checks whether a job can resume with the current code: replays its record, without side effects. */
  async rehearse(job: StoredJob, agent = this.#parts.agents.of(job)): Promise<Rehearsed> {
    if (!agent) throw new Error(`Agent "${job.agent_name}" is not registered`);
    const { jobs, redactor, files } = this.#parts;
    const readRecord = () => RunRecord.of(jobs, job.id);
    const redact = (text: string) => redactor.text(text);
    const readResult = (file: FileValue) => files!.readResult(file);
    const about = { job, readRecord, readResult, agent, redact };
    return rehearse(this.#parts, { ...about, ...readsOf(this.#parts, job.id) });
  }

  /** Resumes a held job if the code fits its record now. A few are tried at the same time. */
  async try(job: StoredJob): Promise<void> {
    const { scheduler, log } = this.#parts;
    try {
      await this.#inTurn(() => this.#try(job));
    } catch (error) {
      if (!scheduler.isClosed) log.error("a held job could not be checked again", { job_id: job.id, error });
    }
  }

  /** Whether a suspended job would be held if it resumed now. */
  async wouldHold(job: StoredJob): Promise<boolean> {
    const rehearsed = await this.#inTurn(() => this.rehearse(job));
    const end = rehearsed?.end;
    return end !== undefined && end !== "unsure" && end.held !== undefined;
  }

  /** Resolves with nothing where the service closes before. */
  #inTurn<T>(work: () => Promise<T>): Promise<T | undefined> {
    const { scheduler } = this.#parts;
    const line = this.#tried++ % AT_ONCE;
    const turn = this.#lines[line] ?? scheduler.whenResumed();
    const done = turn.then(() => (scheduler.isClosed ? undefined : work()));
    const over = () => {};
    this.#lines[line] = done.then(over, over);
    return done;
  }

  async #try(job: StoredJob): Promise<void> {
    const { agents, log, scheduler, turns } = this.#parts;
    if (holdOf(job) !== "code_changed" || !agents.of(job)) return;
    const { end } = await this.rehearse(job);
    if (end !== undefined && end !== "unsure") {
      if (end.held) return;
      if (end.reason === "crashed") {
        const about = { job_id: job.id, problem: end.message };
        if (!scheduler.isClosed) log.error("a held job stays held: its handler ended its process", about);
        return;
      }
    }
    void turns.queue(job, "resume");
  }
}
