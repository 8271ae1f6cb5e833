import { setTimeout as delay } from "node:timers/promises";
import type { AgentDefinition } from "agent-control-service";
import type { StoredJob } from "../../src/core/models/job.ts";
import type { Store } from "../../src/core/store/store.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

/** One job over several deploys: each ends the process before it and brings other code. */
export class Deploys {
  readonly #store: Store;
  #life: Life | undefined;

  private constructor(store: Store) {
    this.#store = store;
  }

  /** Starts the job with the first code. */
  static async start(agent: AgentDefinition): Promise<Deploys> {
    const deploys = new Deploys(await emptyStore());
    deploys.#life = new Life(deploys.#store, agent);
    await deploys.life.start();
    return deploys;
  }

  get life(): Life {
    return this.#life!;
  }

  async down(): Promise<void> {
    this.life.die();
    await delay(0);
  }

  async deploy(...agents: AgentDefinition[]): Promise<void> {
    await this.down();
    this.#life = new Life(this.#store, agents);
    await this.life.resume();
  }

  job(): Promise<StoredJob> {
    return this.life.jobs.get(JOB);
  }

  /** The job once `isSo` holds of it. */
  async until(isSo: (job: StoredJob) => boolean): Promise<StoredJob> {
    for (let left = 4000; left > 0; left--) {
      const job = await this.job();
      if (isSo(job)) return job;
      await delay(2);
    }
    throw new Error(`The job stays ${JSON.stringify(await this.job())}`);
  }

  /** The question that a case has open, once `isSo` holds of it. */
  async question(caseId: string, isSo: (text: string) => boolean = () => true) {
    for (let left = 4000; left > 0; left--) {
      const question = (await this.life.cases.find(caseId))?.question;
      if (question && isSo(question.question)) return question;
      await delay(2);
    }
    throw new Error(`Case "${caseId}" asks nothing: ${JSON.stringify(await this.job())}`);
  }

  answer(caseId: string, answer: Record<string, unknown>) {
    return this.life.runner.answer(JOB, caseId, { answer, message: null });
  }

  ended(): Promise<StoredJob> {
    return this.life.ended() as Promise<StoredJob>;
  }
}
