import { QuestionNotices } from "../questions/question-notices.ts";
import type { RequestParts } from "../runner-parts.ts";
import type { Member } from "./member.ts";
import { resumeAlone } from "./resume-alone.ts";

/** The life of the only instance of a store. */
export class LoneMember implements Member {
  readonly probe = undefined;
  readonly #parts: RequestParts;
  readonly #notices: QuestionNotices;

  constructor(parts: RequestParts) {
    this.#parts = parts;
    this.#notices = new QuestionNotices({ ...parts, isClosed: () => parts.scheduler.isClosed });
  }

  async start(aliveUntil: string | undefined): Promise<void> {
    await resumeAlone(this.#parts, aliveUntil);
    this.#parts.waker.look();
    this.#parts.codeChecks.start();
    void this.#notices.look();
  }

  close(): void {
    this.#notices.close();
  }

  async leave(): Promise<void> {}
}
