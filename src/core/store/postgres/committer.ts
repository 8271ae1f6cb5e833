import { setTimeout as delay, setImmediate as immediate } from "node:timers/promises";
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
import { type Statement, statementOf, type Unit, unitsOf } from "./group.ts";
import { identifier } from "./sql-text.ts";

/** What became of an attempt: `conflict` says that its work must run again. */
export type Outcome = "stored" | "conflict" | "fenced";

/** Maximum number of attempts in a group. */
const MOST = 256;
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

/** What the function that writes a group gets. */
interface Group {
  readonly writer: string;
  readonly turn: number;
  readonly version: string;
  readonly statement: Statement;
  readonly units: number;
}

/**
 * Sends attempts to the database: all that wait become one group, which is one statement and one commit. One group is
 * under way at a time, on a connection of its own.
 *
 * The row of this writer has the number of its last group and the result. A group takes the next number in the same
 * statement that writes, so an answer that was lost can be asked for, and a group that was never taken is refused from
 * then on.
 */
export class Committer {
  readonly #connections: Connections;
  readonly #schema: string;
  readonly #commit: CommitFunction;
  /** The function that writes a group, quoted. */
  readonly #function: string;
  readonly #lockTimeout: number;
  readonly #onSettled: (attempt: Attempt, outcome: Outcome | "refused") => void;
  readonly #health: DatabaseHealth;
  #waiting: Waiting[] = [];
  #isBusy = false;
  #isClosed = false;
  #whenIdle: (() => void)[] = [];
  #writer: Registered | undefined;
  groups = 0;

  constructor(options: {
    connections: Connections;
    schema: string;
    /** The function that writes a group. */
    commit: CommitFunction;
    lockTimeout: number;
    /** Called for each attempt before its promise settles. */
    onSettled: (attempt: Attempt, outcome: Outcome | "refused") => void;
    /** Hears whether the database answers and accepts writes. */
    health: DatabaseHealth;
  }) {
    this.#connections = options.connections;
    this.#schema = identifier(options.schema);
    this.#commit = options.commit;
    this.#function = `${this.#schema}.${identifier(options.commit.name)}`;
    this.#lockTimeout = options.lockTimeout;
    this.#onSettled = options.onSettled;
    this.#health = options.health;
  }

  /** Resolves once it is known what became of the attempt; rejects if it is not stored for another reason. */
  commit(attempt: Attempt): Promise<Outcome> {
    attempt.state = "queued";
    return new Promise((resolve, reject) => {
      this.#waiting.push({ attempt, resolve, reject });
      if (this.#isBusy) return;
      this.#isBusy = true;
      // Others of this moment join the group.
      setImmediate(() => void this.#run());
    });
  }

  /** Registers as a writer. */
  async register(): Promise<void> {
    const rows = await this.#connections.write(
      `with old as (delete from ${this.#schema}._writer where seen_at < now() - interval '30 days')
       insert into ${this.#schema}._writer default values returning id::text`,
      [],
    );
    this.#writer = { id: rows[0]!.id as string, turn: 0 };
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#isBusy) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#commitGroup(this.#waiting.splice(0, MOST));
      // Callers whose transactions this group had join the next one, rather than the one after it.
      await immediate();
    }
    this.#isBusy = false;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  async #commitGroup(group: readonly Waiting[]): Promise<void> {
    const units = unitsOf(group.map(({ attempt }) => attempt));
    this.#health.writes();
    await this.#commitUnits(units, group);
    this.#health.wrote();
  }

  async #commitUnits(units: readonly Unit[], group: readonly Waiting[]): Promise<void> {
    let results: readonly Outcome[];
    try {
      results = await this.#send(units);
    } catch (error) {
      if (isRefusal(error) && !isTransient(error) && units.length > 1) {
        // One of them cannot be stored: the others must not share its fate.
        for (const unit of units) await this.#commitUnits([unit], group);
        return;
      }
      if (!isRefusal(error)) this.#health.goDown(error);
      else if (isServerRefusal(error)) this.#health.refused(error, () => this.#rehearse(units[0]!));
      const refused = new Set(units.flatMap(({ attempts }) => attempts));
      for (const each of group) if (refused.has(each.attempt)) this.#refuse(each, explain(error));
      this.#giveUpDependents();
      return;
    }
    const outcomes = new Map<Attempt, Outcome>();
    for (const [at, unit] of units.entries()) {
      for (const attempt of unit.attempts) outcomes.set(attempt, outcomeFor(attempt, results[at]!, unit));
    }
    // In the order in which they were asked for, which observers hear of them in.
    for (const each of group) {
      const outcome = outcomes.get(each.attempt);
      if (outcome !== undefined) this.#settle(each, outcome);
    }
    this.#giveUpDependents();
  }

  #settle({ attempt, resolve }: Waiting, outcome: Outcome): void {
    attempt.state = outcome === "stored" ? "stored" : "failed";
    this.#onSettled(attempt, outcome);
    resolve(outcome);
  }

  #refuse({ attempt, reject }: Waiting, error: Error): void {
    attempt.state = "failed";
    this.#onSettled(attempt, "refused");
    reject(error);
  }

  /** What was built on a failure must run again. */
  #giveUpDependents(): void {
    this.#waiting = this.#waiting.filter((waiting) => {
      if (![...waiting.attempt.after].some(({ state }) => state === "failed")) return true;
      this.#settle(waiting, "conflict");
      return false;
    });
  }

  /** Sends a group until the database has written or refused it. */
  async #send(units: readonly Unit[]): Promise<readonly Outcome[]> {
    for (let tries = 1; ; tries++) {
      if (this.#writer === undefined) await this.register();
      const writer = this.#writer!;
      const group = this.#next(writer, units);
      const { turn } = group;
      let isSent = false;
      try {
        const result = await this.#write(group, (text, values) =>
          this.#connections.write(text, values, () => {
            isSent = true;
          }),
        );
        writer.turn = turn;
        this.groups++;
        return readResult(result);
      } catch (error) {
        if (!isSent) throw error;
        if (!isRefusal(error)) {
          this.#health.goDown(error);
          const result = await this.#findOut(writer, turn);
          if (result !== undefined) return readResult(result);
          return units.map(() => "conflict");
        }
        if (error.code === "SV001") {
          // The database is another one, or an older copy of it: nothing in memory counts.
          this.#writer = undefined;
          return units.map(() => "conflict");
        }
        if (!isTransient(error) || tries >= TRIES) throw error;
        await delay(REFUSED(tries));
      }
    }
  }

  async #write(
    { writer, turn, version, statement, units }: Group,
    send: (text: string, values: readonly unknown[]) => Promise<Result["rows"]>,
  ): Promise<string> {
    const { locks, modes, work } = statement;
    const rows = await send(`select ${this.#function}($1, $2, $3, $4, $5, $6, $7, $8) as result`, [
      ...[writer, turn, version, `${this.#lockTimeout}`, units, locks, modes, work],
    ]);
    return rows[0]!.result as string;
  }

  /** Rejects while the server refuses this unit, of which it keeps nothing. */
  async #rehearse(unit: Unit): Promise<void> {
    if (this.#writer !== undefined) {
      try {
        await this.#write(this.#next(this.#writer, [unit]), (text, values) =>
          this.#connections.rehearse(text, values),
        );
        return;
      } catch (error) {
        if (!isRefusal(error) || error.code !== "SV001") throw error;
      }
    }
    // The next group needs it in any case.
    await this.register();
  }

  /** The next group of a writer. */
  #next({ id, turn: last }: Registered, units: readonly Unit[]): Group {
    const turn = last + 1;
    const version = (BigInt(id) * 2n ** 40n + BigInt(turn)).toString();
    return {
      writer: id,
      turn,
      version,
      statement: statementOf(units, version, this.#commit),
      units: units.length,
    };
  }

  /** What became of a group whose answer was lost: its result, or nothing if it is not written and never will be. */
  async #findOut(writer: Registered, turn: number): Promise<string | undefined> {
    for (let failures = 0; ; failures++) {
      try {
        const rows = await this.#connections.write(`select ${this.#schema}._settle($1, $2, $3) as result`, [
          writer.id,
          turn,
          `${this.#lockTimeout}`,
        ]);
        const result = rows[0]!.result as string | null;
        writer.turn = turn;
        this.#health.decided();
        // Without its row it is another database, or an older copy of it: the group is not in there.
        if (result === null) this.#writer = undefined;
        return result === null || result === "void" ? undefined : result;
      } catch (error) {
        if (this.#isClosed) {
          throw storageError(
            "The database did not answer: whether the last writes are stored is not known",
            "The next start reads what is stored.",
          );
        }
        if (!isRefusal(error)) this.#health.goDown(error);
        else if (isServerRefusal(error)) this.#health.undecided(error);
        await delay(UNANSWERED(failures));
      }
    }
  }
}

const OUTCOMES: readonly Outcome[] = ["stored", "conflict", "fenced"];

/** Reads an array of Postgres. */
function readResult(text: string): Outcome[] {
  return text
    .slice(1, -1)
    .split(",")
    .map((number) => OUTCOMES[Number(number)]!);
}

/** What became of an attempt. Where several with different fences are in a unit, each finds out by itself when it runs again. */
function outcomeFor(attempt: Attempt, outcome: Outcome, { attempts }: Unit): Outcome {
  if (outcome !== "fenced") return outcome;
  const fences = new Set(attempts.flatMap(({ fence }) => (fence ? [`${fence.epoch} ${fence.job}`] : [])));
  return attempt.fence !== undefined && fences.size === 1 ? "fenced" : "conflict";
}
