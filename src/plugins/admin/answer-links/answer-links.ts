import { createHash, randomBytes } from "node:crypto";
import type { Cases } from "../../../core/entities/cases.ts";
import type { AskingCase } from "../../../core/runs/questions/open-questions.ts";
import { type Store, StoreMissingError, type Transaction } from "../../../core/store/store.ts";
import type { AnswerLink } from "./answer-link-table.ts";

interface LinkParts {
  readonly store: Store;
  readonly cases: Cases;
  readonly clock: () => Date;
}

interface NewAnswerLink {
  readonly name: string;
  readonly person?: AnswerLink["person"];
  readonly by: string;
  readonly maker?: string;
  /** Milliseconds. */
  readonly lasts: number;
  readonly evidence: boolean;
}

/** The links with which people answer a question without a key, stored as hashes. */
export class AnswerLinks {
  readonly #parts: LinkParts;

  constructor(parts: LinkParts) {
    this.#parts = parts;
  }

  /** A link to be stored. The token is returned only here. */
  async make(
    item: AskingCase,
    { lasts, evidence, ...whom }: NewAnswerLink,
  ): Promise<{ link: AnswerLink; token: string }> {
    await this.#removeExpired();
    const token = randomBytes(24).toString("base64url");
    const created = this.#now();
    const { id: question_id, asked_at } = item.question;
    const about = { case_id: item.id, question_id, asked_at };
    const shows = evidence ? { evidence } : {};
    const link = { id: hash(token), ...whom, ...about, ...shows, created, until: created + lasts };
    return { link, token };
  }

  /** The link of a token, whatever became of its question; `undefined` once it has expired or was revoked. */
  async find(token: string): Promise<AnswerLink | undefined> {
    const link = await this.#table.get(hash(token));
    return link && link.until > this.#now() ? link : undefined;
  }

  /** The case whose open question a link is about; `undefined` once the question is answered or its time is over. */
  async asking(link: AnswerLink): Promise<AskingCase | undefined> {
    const where = { id: link.case_id, status: "awaiting" };
    const [item] = (await this.#parts.cases.list({ where, limit: 1 })).items;
    return item && isAsking(item) && isAbout(link, item) && !this.#isOver(item) ? item : undefined;
  }

  /** The links that can answer the open question of a case, oldest first. */
  async of(item: AskingCase): Promise<AnswerLink[]> {
    const { items } = await this.#table.list({
      where: { case_id: item.id },
      limit: Number.POSITIVE_INFINITY,
    });
    const now = this.#now();
    return items
      .filter((link) => isAbout(link, item) && link.until > now)
      .sort((one, other) => one.created - other.created);
  }

  /** Notes that a link was used, for its own page: the question itself accepts one answer. */
  async used(link: AnswerLink): Promise<void> {
    try {
      await this.#table.change(link.id, (row) => ({ ...row, used: this.#now() }));
    } catch (error) {
      // It was revoked meanwhile.
      if (!(error instanceof StoreMissingError)) throw error;
    }
  }

  /** Removes a link of this case inside a unit; whether there was one. */
  async revoke(tx: Transaction, caseId: string, id: string): Promise<boolean> {
    const link = await tx.get("AnswerLink", id);
    return link?.case_id === caseId && (await tx.remove("AnswerLink", id));
  }

  #isOver({ question: { deadline } }: AskingCase): boolean {
    return deadline !== null && Date.parse(deadline) <= this.#now();
  }

  async #removeExpired(): Promise<void> {
    const expired = { where: { until: { lt: this.#now() } }, limit: 100 };
    for (const id of await this.#table.ids(expired)) await this.#table.remove(id);
  }

  #now(): number {
    return this.#parts.clock().getTime();
  }

  get #table() {
    return this.#parts.store.table("AnswerLink");
  }
}

/** Whether the question of a case is open. */
export function isAsking(item: { readonly question: unknown; readonly status: string }): item is AskingCase {
  return item.status === "awaiting" && Boolean(item.question);
}

function isAbout(link: AnswerLink, { question }: AskingCase): boolean {
  return question.id === link.question_id && question.asked_at === link.asked_at;
}

function hash(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}
