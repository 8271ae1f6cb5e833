import type { Joins, ListQuery, StoreLogger } from "../store.ts";
import { type Connections, explain } from "./connection.ts";
import type { DatabaseReads } from "./database-reads.ts";
import { HourTallies } from "./hour-tallies.ts";
import type { Lower, Parameters } from "./query-sql.ts";
import type { TableLayout } from "./table-layout.ts";

/** Counts of hours that fail in a row before the log says so, once until one succeeds. */
const NOTED_FAILURES = 3;

/** The numbers of a table by hour, and until when they are known. */
interface KnownTallies {
  readonly kept: HourTallies;
  until: number | undefined;
}

interface TalliedTablesParts {
  readonly layouts: Iterable<TableLayout>;
  readonly reads: DatabaseReads;
  readonly connections: Connections;
  readonly log: StoreLogger;
  readonly lower: Lower;
  /** By the clock of the database. */
  readonly time: () => number;
  readonly isClosed: () => boolean;
}

/** The tables whose entities are counted by hour, and until when their hours are counted. */
export class TalliedTables {
  readonly #parts: TalliedTablesParts;
  readonly #tallies = new Map<TableLayout, KnownTallies>();
  #failures = 0;

  constructor(parts: TalliedTablesParts) {
    this.#parts = parts;
    for (const layout of parts.layouts)
      if (layout.spec.tallies) this.#tallies.set(layout, { kept: new HourTallies(layout), until: undefined });
  }

  /** Reads until when the hours of each table are counted. */
  async read(): Promise<void> {
    for (const tallies of this.#tallies.values()) await this.#readTallied(tallies);
  }

  /** Reads until when the hours of a table are counted: those before remain so. Resolves with whether it has any entity. */
  async #readTallied(tallies: KnownTallies, joins?: Joins): Promise<boolean> {
    const [row] = await this.#parts.reads.poll(joins, tallies.kept.stateSql, []);
    tallies.until = (row?.until ?? undefined) as number | undefined;
    return row?.any === true;
  }

  /** Counts the entities of hours that are over. Until that is done, or where it fails, they are counted when they are asked for. */
  async count(): Promise<void> {
    try {
      await this.#countAll();
      this.#failures = 0;
    } catch (error) {
      // A busy table, or a server that is away for a moment, is no news.
      if (++this.#failures !== NOTED_FAILURES) return;
      this.#parts.log.warn(
        "the hours of figures could not be counted several times in a row: until they are, figures over a time are counted from the jobs, which takes longer",
        { error: explain(error) },
      );
    }
  }

  async #countAll(): Promise<void> {
    const due = HourTallies.due(this.#parts.time());
    for (const tallies of this.#tallies.values()) {
      const isEmpty = !(await this.#readTallied(tallies, "soon"));
      if (isEmpty || (tallies.until !== undefined && tallies.until >= due)) continue;
      const client = await this.#parts.connections.single();
      try {
        while (!this.#parts.isClosed()) {
          tallies.until = await tallies.kept.count(client, due);
          if (tallies.until === undefined || tallies.until >= due) break;
        }
      } finally {
        await client.end().catch(() => {});
      }
    }
  }

  /** How many entities a query has, by hours that are over: see `HourTallies`. */
  sql(
    layout: TableLayout,
    field: string | undefined,
    query: ListQuery,
    parameters: Parameters,
  ): string | undefined {
    const tallies = this.#tallies.get(layout);
    return tallies?.kept.read(query, { field, until: tallies.until, parameters, lower: this.#parts.lower });
  }
}
