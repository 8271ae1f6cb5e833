import { QuestionNotices } from "../questions/question-notices.ts";
import { isStorageError, whenWritable } from "../queue/when-writable.ts";
import type { SharedParts } from "./claimant.ts";
import { Searched } from "./find-claimable.ts";
import type { Member } from "./member.ts";
import type { Membership } from "./membership.ts";
import { runProbe } from "./probe-run.ts";
import { Rounds } from "./rounds.ts";
import { lookAround, shareJobs } from "./share-jobs.ts";

/** The life of an instance that shares its store with others. */
export class SharedMember implements Member {
  readonly #parts: SharedParts;
  readonly #membership: Membership;
  readonly #notices: QuestionNotices;
  readonly #stopSharing: () => void;
  #isProbed = false;

  constructor(parts: SharedParts, membership: Membership) {
    this.#parts = parts;
    this.#membership = membership;
    this.#notices = new QuestionNotices({ ...parts, isClosed: () => parts.scheduler.isClosed });
    const rounds = new Rounds(parts, membership.times.dead, this.#notices);
    membership.onLost = () => parts.runs.leaveAll();
    const searched = new Searched();
    membership.onLook = () => lookAround(parts, membership, { rounds, searched });
    this.#stopSharing = shareJobs(parts, membership);
  }

  get probe(): "pending" | "done" {
    return this.#isProbed ? "done" : "pending";
  }

  async start(): Promise<void> {
    await this.#membership.join();
    await this.#runProbe();
    this.#membership.look();
  }

  close(): void {
    this.#notices.close();
    this.#membership.close();
  }

  async leave(): Promise<void> {
    this.#stopSharing();
    await this.#membership.leave().catch((error: unknown) => {
      this.#parts.log.warn("the instance could not be signed off: others wait until it counts as dead", {
        error,
      });
    });
  }

  /** Where the store cannot be written to at the moment, the probe runs once it can. */
  async #runProbe(): Promise<void> {
    const { store, log, scheduler } = this.#parts;
    const probe = async () => {
      await runProbe(store, this.#membership.id);
      this.#isProbed = true;
    };
    try {
      await probe();
    } catch (error) {
      if (!isStorageError(error)) throw error;
      log.warn("the probe job could not run: this instance is ready once it has", { error });
      const giveUp = (problem: Error) => {
        if (scheduler.isClosed) throw problem;
      };
      void whenWritable(probe, giveUp).catch((problem: unknown) => {
        if (!scheduler.isClosed)
          log.error("the probe job has failed: this instance is not ready", { error: problem });
      });
    }
  }
}
