import type { Lives } from "../store.ts";
import { LIVES } from "./additions.ts";
import type { DatabaseClock } from "./database-clock.ts";

interface LivesParts {
  /** Runs a statement on a connection that nothing else uses. */
  readonly beat: (text: string, values: readonly unknown[]) => Promise<void>;
  readonly read: (text: string, values: readonly unknown[]) => Promise<Record<string, unknown>[]>;
  /** Is set by the times that are read. */
  readonly clock: DatabaseClock;
}

/** Signs of life in a table of their own, each a statement of its own. */
export class PostgresLives implements Lives {
  /** Milliseconds that one may wait for the connection, and as many for the answer. */
  static readonly limit = 2000;
  readonly #table: string;
  readonly #parts: LivesParts;

  /** `schema` is quoted. */
  constructor(schema: string, parts: LivesParts) {
    this.#table = `${schema}.${LIVES}`;
    this.#parts = parts;
  }

  async renew(id: string): Promise<void> {
    // The local disk is enough: a standby that does not answer must not end all runs.
    await this.#parts.beat(
      `insert into ${this.#table} (id, seen_at)
       select $1, clock_timestamp() from (select set_config('synchronous_commit', 'local', true) as set) s
       where s.set is not null on conflict (id) do update set seen_at = clock_timestamp()`,
      [id],
    );
  }

  async seen(within: number): Promise<{ readonly ids: ReadonlySet<string>; readonly now: number }> {
    const asked = performance.now();
    const [row] = await this.#parts.read(
      `select extract(epoch from clock_timestamp())::float8 * 1000 as now,
         array(select id from ${this.#table} where seen_at > clock_timestamp() - $1::float8 * interval '1 ms') as ids`,
      [within],
    );
    const { ids, now } = row as { ids: string[]; now: number };
    this.#parts.clock.note(now, { asked, answered: performance.now() });
    return { ids: new Set(ids), now };
  }

  async remove(id: string, older: number): Promise<void> {
    await this.#parts.beat(
      `delete from ${this.#table} where id = $1 or seen_at < clock_timestamp() - $2 * interval '1 ms'`,
      [id, older],
    );
  }
}
