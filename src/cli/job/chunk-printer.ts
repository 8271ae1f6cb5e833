import type { EmittedChunks } from "../../core/models/emitted-chunks.ts";
import type { CliContext } from "../context.ts";

/** Prints what steps emit as it arrives: the text of a step in one piece, as long as nothing else is printed. */
export class ChunkPrinter {
  readonly #context: Pick<CliContext, "print" | "write">;
  /** What was printed last of a step: which of its attempts, and how many chunks of it. */
  readonly #seen = new Map<string, { readonly attempt: string; readonly count: number }>();
  /** The attempt whose text is in the current line, which has not ended. */
  #open: string | undefined;
  /** The current line, where only whole lines can be written. */
  #line = "";

  constructor(context: Pick<CliContext, "print" | "write">) {
    this.#context = context;
  }

  print({ case_id, name, position, run, attempt, index, chunks, skipped = 0 }: EmittedChunks): void {
    const step = JSON.stringify([case_id, position]);
    const which = `${run}/${attempt}`;
    const known = this.#seen.get(step);
    const count = known?.attempt === which ? known.count : 0;
    this.#seen.set(step, { attempt: which, count: Math.max(count, index + chunks.length) });
    const where = `${case_id === undefined ? "" : `${case_id}: `}${name}${attempt > 1 ? `, attempt ${attempt}` : ""}`;
    const text = (part: string) => this.#write(part, `${step} ${which}`, where);
    const missed = Math.min(skipped, index - count);
    if (missed > 0) text(`[${missed} missed] `);
    // After a reconnection, what the attempt has emitted comes again.
    for (const chunk of chunks.slice(Math.max(0, count - index))) {
      if (typeof chunk === "string") {
        text(chunk);
        continue;
      }
      this.endLine();
      this.#context.print(`${where}: ${JSON.stringify(chunk)}`);
    }
  }

  /** Ends the current line, before something else is printed. */
  endLine(): void {
    if (this.#open === undefined) return;
    this.#open = undefined;
    this.#context.print(this.#line);
    this.#line = "";
  }

  #write(part: string, attempt: string, where: string): void {
    if (this.#open !== attempt) {
      this.endLine();
      this.#open = attempt;
      this.#append(`${where}: `);
    }
    this.#append(part);
  }

  #append(part: string): void {
    if (this.#context.write) this.#context.write(part);
    else this.#line += part;
  }
}
