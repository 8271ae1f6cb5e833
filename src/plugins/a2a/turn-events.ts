import type { ShownEvent } from "../../core/conversations/thread-message.ts";
import type { AskingCase } from "../../core/runs/questions/open-questions.ts";
import type { A2aParts } from "./parts.ts";
import { questionsOf, type Turn, toTurnJob, whenAsked } from "./turn-task.ts";
import { type Json, resultOf, type TaskJob, toArtifactUpdate, toStatusUpdate } from "./updates.ts";

/** What happens in a turn as the events of its task: the text as an artifact that grows, questions, the answer. */
export class TurnEvents {
  readonly #read: (caseId: string) => Promise<Turn>;
  readonly #parts: A2aParts;
  #task: TaskJob | undefined;
  #caseId: string | undefined;
  #isAsked = false;
  #append = false;

  constructor(parts: A2aParts, read: (caseId: string) => Promise<Turn>) {
    this.#parts = parts;
    this.#read = read;
  }

  async *of(event: ShownEvent): AsyncGenerator<Json, void, undefined> {
    if ("caseId" in event && event.caseId !== this.#caseId) {
      this.#caseId = event.caseId;
      this.#task = toTurnJob(await this.#read(event.caseId));
    }
    if (!this.#task || this.#caseId === undefined) return;
    if (this.#isAsked && event.type !== "question") {
      this.#isAsked = false;
      yield toStatusUpdate({ ...this.#task, status: "in_progress" }, []);
    }
    if (event.type === "text") {
      yield toArtifactUpdate(
        this.#task,
        { artifactId: "result", name: "Result", parts: [{ text: event.text }] },
        { append: this.#append, lastChunk: false },
      );
      this.#append = true;
    }
    if (event.type === "question") {
      this.#isAsked = true;
      const asked = await whenAsked(this.#parts, await this.#read(event.caseId), event.question);
      yield toStatusUpdate(toTurnJob(asked), [{ ...asked.item, question: event.question } as AskingCase]);
    }
    if (event.type !== "answer" && event.type !== "failed") return;
    const { job, item } = await this.#read(this.#caseId);
    this.#task = toTurnJob({ job, item });
    // It replaces what has been sent of it.
    for (const artifact of resultOf(this.#task, this.#parts.base))
      yield toArtifactUpdate(this.#task, artifact);
    yield toStatusUpdate(this.#task, questionsOf(item));
  }
}
