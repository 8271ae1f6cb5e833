import type { EmittedChunks } from "../models/emitted-chunks.ts";

/** Comes before an answer that replaces text that was sent before. */
const STARTED_OVER = "[The answer was started over]";

/** What a reader needs to know of what a step has emitted. */
type EmittedText = Omit<EmittedChunks, "type" | "name" | "key" | "skipped">;

/**
 * The text of a turn for a reader that can only append: what its steps emit, and at the end whatever is missing of the
 * answer. The text of a further attempt is sent from where it differs; if it differs from what was sent, the whole answer
 * follows at the end.
 */
export class TurnText {
  #sent = "";
  /** The step whose text comes last: where that starts, and which attempt it is. */
  #step:
    | { readonly key: string; readonly start: number; attempt: string; text: string; next: number }
    | undefined;
  /** Whether something is missing in what the steps have emitted: no more of it is sent. */
  #isBroken = false;
  /** Whether what was sent is not the beginning of what the steps have emitted. */
  #differs = false;

  /** What is to be sent of new chunks. */
  add({ case_id, position, run, attempt, index, chunks }: EmittedText): string {
    const key = `${case_id}/${position}`;
    const which = `${run}/${attempt}`;
    const step =
      this.#step?.key === key
        ? this.#step
        : { key, start: this.#sent.length, attempt: which, text: "", next: 0 };
    this.#step = step;
    if (step.attempt !== which) Object.assign(step, { attempt: which, text: "", next: 0 });
    this.#isBroken ||= index > step.next;
    step.next = index + chunks.length;
    step.text += chunks.filter((chunk) => typeof chunk === "string").join("");
    if (this.#isBroken) return "";
    const known = this.#sent.slice(step.start);
    if (step.text.startsWith(known)) {
      if (this.#differs) return "";
      const more = step.text.slice(known.length);
      this.#sent += more;
      return more;
    }
    this.#differs ||= !known.startsWith(step.text);
    return "";
  }

  /** What is missing of the answer. */
  finish(answer: string): string {
    if (this.#sent === "") return answer;
    if (!this.#differs) {
      if (answer.startsWith(this.#sent)) return answer.slice(this.#sent.length);
      if (!this.#isBroken && this.#sent.trimEnd().endsWith(answer.trim())) return "";
    }
    return `\n\n${this.#differs || this.#isBroken ? `${STARTED_OVER}\n\n` : ""}${answer}`;
  }
}
