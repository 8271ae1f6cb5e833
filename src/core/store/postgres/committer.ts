import { setTimeout as delay } from "node:timers/promises";
import { delays } from "../../base/backoff.ts";
import { storageError } from "../storage-error.ts";
import type { Attempt } from "./attempt.ts";
import type { CommitFunction } from "./commit-sql.ts";
import {
  type Connections,
  explain,
  isRefusal,
  isServerRefusal,
  isTransient,
  type Result,
} from "./connection.ts";
import type { DatabaseHealth } from "./database-health.ts";
import { statementOf, type Unit, unitsOf } from "./group.ts";
import { isBuiltOnFailure, type Outcome, outcomeFor, readResult } from "./group-outcome.ts";
import type { Writer } from "./heads.ts";
import { identifier } from "./sql-text.ts";

/** Maximum number of attempts in a group. */
const MOST = 256;
/** Maximum number of groups under way. */
const DEPTH = 2;
/** Number of times that a group is sent which the server gave up. */
const TRIES = 6;
const REFUSED = delays({ first: 10, most: 1000, jitter: 1 });
const UNANSWERED = delays({ first: 50, most: 1000 });

interface Waiting {
  readonly attempt: Attempt;
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: Error) => void;
}

/** The row of this writer, and the number of its last group. */
interface Registered {
  readonly id: string;
  turn: number;
}

/** A group that was sent. */
interface Sent {
  readonly writer: Registered;
  readonly turn: number;
  /** The number of the unit of each of its attempts. */
  readonly numbers: ReadonlyMap<Writer, number>;
  /** The group before it, which was under way; removed when this one is over, as each would keep all groups before it. */
  follows: Sent | undefined;
  readonly answer: Promise<string>;
  isSent: boolean;
  isAnswered: boolean;
  /** Whether its turn is over: it is written, or void. */
  isTaken: boolean;
  isFollowed: boolean;
}

/** A group, and when it is known what became of its attempts. */
interface UnderWay {
  readonly sent: Sent | undefined;
  readonly over: Promise<void>;
}

interface CommitterParts {
  readonly connections: Connections;
  readonly schema: string;
  /** The function that writes a group. */
  readonly commit: CommitFunction;
  readonly lockTimeout: number;
  /** Called for each attempt before its promise settles. */
  readonly onSettled: (attempt: Attempt, outcome: Outcome | "refused") => void;
  /** Hears whether the database answers and accepts writes. */
  readonly health: DatabaseHealth;
}

/**
 * Sends attempts to the database: all that wait become one group, which is one statement and one commit, on a connection
 * of its own. The next group is sent while the database works on the one before, which it ends first.
 *
 * The row of this writer has the number of its last group and the result. A group takes the next number in the same
 * statement that writes, so an answer that was lost can be asked for, and a group that was never taken is refused from
 * then on. So is one that follows it: the database compares the number, and what became of the units that it is built
 * on. A number that a group was sent ahead with is used by no other group: where the one before it was refused, this
 * process registers as another writer.
 */
export class Committer {
  readonly #parts: CommitterParts;
  readonly #schema: string;
  /** The function that writes a group, quoted. */
  readonly #function: string;
  #waiting: Waiting[] = [];
  /** In the order in which they were sent. */
  readonly #underWay: UnderWay[] = [];
  #isPlanned = false;
  #isClosed = false;
  #whenIdle: (() => void)[] = [];
  #writer: Registered | undefined;
  groups = 0;

  constructor(parts: CommitterParts) {
    this.#parts = parts;
    this.#schema = identifier(parts.schema);
    this.#function = `${this.#schema}.${identifier(parts.commit.name)}`;
  }

  /** Resolves once it is known what became of the attempt; rejects if it is not stored for another reason. */
  commit(attempt: Attempt): Promise<Outcome> {
    attempt.state = "queued";
    return new Promise((resolve, reject) => {
      this.#waiting.push({ attempt, resolve, reject });
      this.#sendSoon();
    });
  }

  /** Registers as a writer. */
  async register(): Promise<void> {
    const rows = await this.#parts.connections.write(
      `with old as (delete from ${this.#schema}._writer where seen_at < now() - interval '30 days')
       insert into ${this.#schema}._writer default values returning id::text`,
      [],
    );
    this.#writer = { id: rows[0]!.id as string, turn: 0 };
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#isPlanned || this.#underWay.length > 0)
      await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  /** Others of this moment join the group, such as callers whose transactions the last one had. */
  #sendSoon(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      this.#sendGroup();
    });
  }

  #sendGroup(): void {
    const last = this.#underWay.at(-1);
    if (this.#waiting.length === 0) {
      if (last === undefined) for (const resolve of this.#whenIdle.splice(0)) resolve();
      return;
    }
    if (this.#underWay.length === DEPTH || (last !== undefined && !this.#mayFollow(last.sent))) return;
    const group = this.#waiting.splice(0, MOST);
    const units = unitsOf(group.map(({ attempt }) => attempt));
    const sent = this.#writer && this.#sendTo(this.#writer, units, last?.sent);
    if (last === undefined) this.#parts.health.writes();
    this.#underWay.push({ sent, over: this.#conclude(units, group, { sent, last }) });
    if (this.#waiting.length > 0) this.#sendSoon();
  }

  #mayFollow(sent: Sent | undefined): boolean {
    return (
      sent !== undefined &&
      !sent.isAnswered &&
      sent.writer === this.#writer &&
      this.#parts.connections.writesFollow
    );
  }

  /** Groups end in their order. */
  async #conclude(
    units: readonly Unit[],
    group: readonly Waiting[],
    { sent, last }: { sent: Sent | undefined; last: UnderWay | undefined },
  ): Promise<void> {
    await last?.over;
    await this.#commitUnits(units, group, sent);
    if (sent) sent.follows = undefined;
    this.#underWay.shift();
    this.#parts.health.wrote();
    if (this.#underWay.length > 0) this.#parts.health.writes();
    this.#sendSoon();
  }

  /** `sent` is the first attempt to write them. */
  async #commitUnits(all: readonly Unit[], group: readonly Waiting[], sent?: Sent): Promise<void> {
    const units = sent ? all : this.#withoutLost(all, group);
    if (units.length === 0) return;
    let results: readonly Outcome[];
    try {
      results = await this.#send(units, sent);
    } catch (error) {
      // What it was built on is known by now.
      if (error instanceof NotTaken || (sent?.follows !== undefined && isRefusal(error)))
        return this.#commitUnits(units, group);
      if (isRefusal(error) && !isTransient(error) && units.length > 1) {
        // One of them cannot be stored: the others must not share its fate.
        for (const unit of units) await this.#commitUnits([unit], group);
        return;
      }
      if (!isRefusal(error)) this.#parts.health.goDown(error);
      else if (isServerRefusal(error)) this.#parts.health.refused(error, () => this.#rehearse(units[0]!));
      const refused = new Set(units.flatMap(({ attempts }) => attempts));
      for (const each of group) if (refused.has(each.attempt)) this.#refuse(each, explain(error));
      this.#giveUpDependents();
      return;
    }
    const outcomes = new Map<Attempt, Outcome>();
    for (const [at, unit] of units.entries()) {
      for (const attempt of unit.attempts) outcomes.set(attempt, outcomeFor(attempt, results[at]!, unit));
    }
    this.#settleAll(group, outcomes);
    this.#giveUpDependents();
  }

  /** Gives up units that were built on a failure; returns the others. */
  #withoutLost(units: readonly Unit[], group: readonly Waiting[]): readonly Unit[] {
    const isLost = ({ attempts }: Unit) => attempts.some(isBuiltOnFailure);
    const lost = units.filter(isLost).flatMap(({ attempts }) => attempts);
    this.#settleAll(group, new Map(lost.map((attempt) => [attempt, "conflict"])));
    return lost.length === 0 ? units : units.filter((unit) => !isLost(unit));
  }

  /** In the order in which they were asked for, which observers hear of them in. */
  #settleAll(group: readonly Waiting[], outcomes: ReadonlyMap<Attempt, Outcome>): void {
    for (const each of group) {
      const outcome = outcomes.get(each.attempt);
      if (outcome !== undefined) this.#settle(each, outcome);
    }
  }

  #settle({ attempt, resolve }: Waiting, outcome: Outcome): void {
    attempt.state = outcome === "stored" ? "stored" : "failed";
    this.#parts.onSettled(attempt, outcome);
    resolve(outcome);
  }

  #refuse({ attempt, reject }: Waiting, error: Error): void {
    attempt.state = "failed";
    this.#parts.onSettled(attempt, "refused");
    reject(error);
  }

  /** What was built on a failure must run again. */
  #giveUpDependents(): void {
    this.#waiting = this.#waiting.filter((waiting) => {
      if (!isBuiltOnFailure(waiting.attempt)) return true;
      this.#settle(waiting, "conflict");
      return false;
    });
  }

  /** Sends a group until the database has written or refused it; one that was sent ahead, once. */
  async #send(units: readonly Unit[], first: Sent | undefined): Promise<readonly Outcome[]> {
    for (let tries = 1; ; tries++) {
      if (tries > 1 || first === undefined) await this.#whenRegistered();
      const sent = (tries === 1 && first) || this.#sendTo(this.#writer!, units);
      try {
        const result = await sent.answer;
        this.#take(sent);
        this.groups++;
        return readResult(result);
      } catch (error) {
        const isRefused = isRefusal(error);
        if (!isRefused && sent.isSent) this.#parts.health.goDown(error);
        // Its turn never came, and never will.
        if (sent.follows?.isTaken === false) throw new NotTaken();
        if (sent.isSent && !isRefused) {
          const result = await this.#findOut(sent);
          if (result !== undefined) return readResult(result);
          return units.map(() => "conflict");
        }
        // The number of the one that follows it must not be that of another group.
        if (sent.isFollowed) this.#leave(sent.writer);
        if (!sent.isSent) throw error;
        if (isRefused && error.code === "SV001") {
          // The database is another one, or an older copy of it: nothing in memory counts.
          this.#leave(sent.writer);
          return units.map(() => "conflict");
        }
        if (!isTransient(error) || tries >= TRIES || sent.follows !== undefined) throw error;
        await delay(REFUSED(tries));
      }
    }
  }

  async #whenRegistered(): Promise<void> {
    if (this.#writer === undefined) await this.register();
  }

  /** Writes no more as this writer. */
  #leave(writer: Registered): void {
    if (this.#writer === writer) this.#writer = undefined;
  }

  #take(sent: Sent): void {
    sent.isTaken = true;
    sent.writer.turn = sent.turn;
  }

  /** Sends a group as the next one of a writer. */
  #sendTo(writer: Registered, units: readonly Unit[], follows?: Sent): Sent {
    const turn = (follows ?? writer).turn + 1;
    const numbers = units.flatMap(({ attempts }, at) =>
      attempts.map((attempt): [Writer, number] => [attempt, at + 1]),
    );
    const sent: Sent = {
      ...{ writer, turn, follows, numbers: new Map(numbers) },
      ...{ isSent: false, isAnswered: false, isTaken: false, isFollowed: false },
      answer: this.#write({ writer, turn, units, before: follows?.numbers }, (text, values) =>
        this.#parts.connections.write(text, values, () => {
          sent.isSent = true;
        }),
      ).finally(() => {
        sent.isAnswered = true;
      }),
    };
    // It is waited for later, when the group before it is over.
    sent.answer.catch(() => {});
    if (follows !== undefined) follows.isFollowed = true;
    return sent;
  }

  async #write(
    {
      writer,
      turn,
      units,
      before,
    }: Pick<Sent, "writer" | "turn"> & {
      units: readonly Unit[];
      before?: Sent["numbers"] | undefined;
    },
    send: (text: string, values: readonly unknown[]) => Promise<Result["rows"]>,
  ): Promise<string> {
    const version = (BigInt(writer.id) * 2n ** 40n + BigInt(turn)).toString();
    const { locks, modes, work } = statementOf(units, { version, commit: this.#parts.commit, before });
    const rows = await send(`select ${this.#function}($1, $2, $3, $4, $5, $6, $7, $8) as result`, [
      ...[writer.id, turn, version, `${this.#parts.lockTimeout}`, units.length, locks, modes, work],
    ]);
    return rows[0]!.result as string;
  }

  /** Rejects while the server refuses this unit, of which it keeps nothing. */
  async #rehearse(unit: Unit): Promise<void> {
    const writer = this.#writer;
    if (writer !== undefined) {
      try {
        await this.#write({ writer, turn: writer.turn + 1, units: [unit] }, (text, values) =>
          this.#parts.connections.rehearse(text, values),
        );
        return;
      } catch (error) {
        if (!isRefusal(error) || error.code !== "SV001") throw error;
      }
    }
    // The next group needs it in any case.
    await this.register();
  }

  /** What became of a group whose answer was lost: its result, or nothing if it is not written and never will be. */
  async #findOut(sent: Sent): Promise<string | undefined> {
    const { writer, turn } = sent;
    for (let failures = 0; ; failures++) {
      try {
        const rows = await this.#parts.connections.write(
          `select ${this.#schema}._settle($1, $2, $3) as result`,
          [writer.id, turn, `${this.#parts.lockTimeout}`],
        );
        const own = rows[0]!.result as string | null;
        const result = own === null ? await this.#resultBefore(writer, turn + 1) : own.split(" ")[0]!;
        this.#take(sent);
        this.#parts.health.decided();
        // Without its row it is another database, or an older copy of it: the group is not in there.
        if (result === undefined) this.#leave(writer);
        return result === "void" ? undefined : result;
      } catch (error) {
        if (this.#isClosed) {
          this.#leave(writer);
          throw storageError(
            "The database did not answer: whether the last writes are stored is not known",
            "The next start reads what is stored.",
          );
        }
        if (!isRefusal(error)) this.#parts.health.goDown(error);
        else if (isServerRefusal(error)) this.#parts.health.undecided(error);
        await delay(UNANSWERED(failures));
      }
    }
  }

  /** The result of the group before that of a turn, if that is the last one which was written. */
  async #resultBefore({ id }: Registered, turn: number): Promise<string | undefined> {
    const rows = await this.#parts.connections.write(
      `select split_part(result, ' ', 2) as result from ${this.#schema}._writer where id = $1 and seq = $2`,
      [id, turn],
    );
    return (rows[0]?.result as string | undefined) || undefined;
  }
}

/** A group that was sent ahead is not written: the turn of the one before it was never taken. */
class NotTaken extends Error {}
