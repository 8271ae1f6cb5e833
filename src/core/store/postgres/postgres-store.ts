import { randomUUID } from "node:crypto";
import { getOrMake } from "../../base/get-or-make.ts";
import { ClosedStoreError } from "../closed.ts";
import type { StoreSnapshot } from "../engine/snapshot.ts";
import { closedError } from "../storage-error.ts";
import type {
  Entity,
  Log,
  LogName,
  Logs,
  Store,
  StoreHealth,
  StoreLogger,
  StoreStats,
  Table,
  TableName,
  TableSpec,
  Tables,
  Transaction,
  TransactionOptions,
} from "../store.ts";
import { arrangeIndexes } from "./arrange-indexes.ts";
import type { Attempt } from "./attempt.ts";
import { readMark } from "./closed-database.ts";
import { CommitFunction } from "./commit-sql.ts";
import { Committer } from "./committer.ts";
import { type Client, Connections, explain, isOfDatabase, isServerRefusal, loadPg } from "./connection.ts";
import { DatabaseClock } from "./database-clock.ts";
import { takeSnapshot } from "./database-content.ts";
import { DatabaseHealth } from "./database-health.ts";
import { DatabaseReads } from "./database-reads.ts";
import { connectFirst, warningsOf } from "./first-connection.ts";
import { type EntityHead, Heads, type LogHead } from "./heads.ts";
import { IndexValues } from "./index-values.ts";
import { Loader } from "./loader.ts";
import { inspect, migrate, type Server, trigramsOf } from "./migrate.ts";
import { PostgresContents } from "./postgres-contents.ts";
import { PostgresHints } from "./postgres-hints.ts";
import { PostgresLives } from "./postgres-lives.ts";
import { isPostgresUrl, PostgresDefaults, type PostgresOptions } from "./postgres-options.ts";
import { Queries } from "./queries.ts";
import { type Lower, Parameters } from "./query-sql.ts";
import { identifier } from "./sql-text.ts";
import { TableLayout } from "./table-layout.ts";
import { TalliedTables } from "./tallied-tables.ts";
import { Transactions } from "./transactions.ts";
import { Upkeep } from "./upkeep.ts";
import { vacuumOften } from "./vacuum-often.ts";

/** What is kept of entities that were read or written: their number, and characters of JSON. */
const KEPT = { count: 50_000, size: 64 * 1024 * 1024 };
/** Milliseconds between two searches for entities that older code has written. */
const RECHECK = 5000;

/** Opens a store in a Postgres database, which other processes may have open, too. */
export async function openPostgresStore(
  { tables, log }: { readonly tables: readonly TableSpec[]; readonly log: StoreLogger },
  given: PostgresOptions,
  { recheck = RECHECK } = {},
): Promise<Store> {
  if (!isPostgresUrl(given.url)) {
    // Its value, which has a password, is in no message.
    throw new TypeError("The URL of a Postgres database must begin with postgres:// or postgresql://");
  }
  const options = { ...PostgresDefaults, ...given };
  const connections = new Connections(await loadPg(), options);
  const layouts = new Map<string, TableLayout>();
  for (const spec of tables) {
    if (layouts.has(spec.name)) throw new TypeError(`There are two tables with the name "${spec.name}"`);
    if (!Number.isSafeInteger(spec.version) || spec.version < 1)
      throw new TypeError(`Table "${spec.name}" needs a version: a whole number of at least 1`);
    layouts.set(spec.name, new TableLayout(spec, options.schema, layouts));
  }
  const client = await connectFirst(connections, log).catch((error: unknown) => {
    throw explain(error);
  });
  try {
    const server = await inspect(client);
    const mark = await readMark(client, options.schema);
    if (mark !== undefined) throw new ClosedStoreError(mark);
    await migrate(client, options.schema, [...layouts.values()]);
    const trigrams = await trigramsOf(async (text) => (await client.query(text)).rows);
    const isSearchSlow = trigrams === undefined;
    for (const warning of warningsOf(options.url, { ...server, isSearchSlow })) log.warn(warning);
    const store = new PostgresStore({ connections, layouts, server, log, options, recheck });
    await vacuumOften(options.schema, { run: (text) => client.query(text), log });
    await store.start(client);
    return store;
  } catch (error) {
    await client.end().catch(() => {});
    await connections.close();
    throw isOfDatabase(error) ? explain(error) : error;
  }
}

interface PostgresStoreParts {
  readonly connections: Connections;
  readonly layouts: ReadonlyMap<string, TableLayout>;
  readonly server: Server;
  readonly log: StoreLogger;
  readonly options: Required<PostgresOptions>;
  readonly recheck: number;
}

class PostgresStore implements Store {
  readonly isShared = true;
  readonly relates = true;
  readonly hints: PostgresHints;
  readonly lives: PostgresLives;
  readonly contents: PostgresContents;
  readonly #parts: PostgresStoreParts;
  readonly #loader: Loader;
  readonly #reads: DatabaseReads;
  readonly #queries: Queries;
  readonly #transactions: Transactions;
  readonly #committer: Committer;
  readonly #faces = new Map<string, Table<Entity>>();
  readonly #health: DatabaseHealth;
  readonly #clock = new DatabaseClock();
  readonly #upkeep: Upkeep;
  readonly #ending = new AbortController();
  #arranged: Promise<void> | undefined;
  #closed: Promise<void> | undefined;
  #gets = 0;

  constructor(parts: PostgresStoreParts) {
    this.#parts = parts;
    const { connections, layouts, server, log, options } = parts;
    const schema = identifier(options.schema);
    const collation = server.hasUnicode ? ' collate "und-x-icu"' : "";
    const lower: Lower = (expression) => `lower(${expression}${collation}) collate "C"`;
    const heads = new Heads<EntityHead>(KEPT, ({ body }) => body?.length ?? 0);
    const logHeads = new Heads<LogHead>(KEPT, () => 0);
    const checkOpen = () => this.#open();
    this.#health = new DatabaseHealth({ log, read: () => connections.read("select 1") });
    const reads = new DatabaseReads(connections, this.#health);
    this.#reads = reads;
    this.#loader = new Loader({
      read: (text, values, options) => reads.query(text, values, options),
      heads,
      logs: logHeads,
      logTable: `${schema}._log`,
      lower,
    });
    const tallied = new TalliedTables({
      ...{ layouts: layouts.values(), reads, connections, log, lower, time: this.time },
      isClosed: () => this.#closed !== undefined,
    });
    this.#queries = new Queries({ reads, loader: this.#loader, tallied, lower, checkOpen });
    this.#transactions = new Transactions({
      layoutOf: (name) => this.#layoutOf(name),
      ...{ heads, logHeads, kept: KEPT.count, loader: this.#loader, health: this.#health, checkOpen },
      commit: (attempt) => this.#committer.commit(attempt),
    });
    this.#committer = new Committer({
      connections,
      ...{ schema: options.schema, lockTimeout: options.lockTimeout },
      commit: new CommitFunction(schema, layouts.values()),
      onSettled: (attempt, outcome) => this.#transactions.settle(attempt, outcome),
      health: this.#health,
    });
    const rewrite = (layout: TableLayout, id: string) =>
      this.#transactions.run((attempt: Attempt) => attempt.rewrite(layout, id), undefined);
    this.#upkeep = new Upkeep({
      indexValues: new IndexValues({ layouts, schema, reads, log, rewrite }),
      tallied,
      every: parts.recheck,
    });
    this.lives = new PostgresLives(schema, {
      beat: async (text, values) => {
        reads.checkOpen();
        const beat = () => connections.beat(text, values, PostgresLives.limit);
        try {
          await beat();
        } catch (error) {
          // It is often the first write that shows it.
          if (isServerRefusal(error)) this.#health.refused(error, beat);
          throw explain(error);
        }
      },
      read: (text, values) => reads.poll("now", text, values),
      clock: this.#clock,
    });
    this.contents = new PostgresContents(schema, (text, values) => reads.query(text, values));
    connections.onUnprepared = () =>
      log.warn(
        "Something between the service and the database loses prepared statements, as PgBouncer does in transaction mode: the service uses none from now on. Add pgbouncer=true to the URL of the database",
      );
    this.hints = new PostgresHints(connections, { schema: options.schema, sender: randomUUID() });
  }

  /** Registers as a writer, brings index values up to date, and listens, on a connection of its own. */
  async start(client: Client): Promise<void> {
    const { connections, layouts, log, options } = this.#parts;
    try {
      await this.#committer.register();
      await this.now();
      await this.#upkeep.update();
    } catch (error) {
      throw explain(error);
    }
    await this.hints.start(client);
    this.#upkeep.watch();
    this.#arranged = arrangeIndexes({
      ...{ schema: options.schema, layouts: [...layouts.values()], log },
      read: (text, values) => this.#reads.query(text, values),
      connect: () => connections.single(),
      signal: this.#ending.signal,
    });
  }

  table<K extends TableName>(name: K): Table<Tables[K]> {
    const make = () => this.#openTable<Tables[K]>(this.#layoutOf(name)) as unknown as Table<Entity>;
    return getOrMake(this.#faces, name, make) as unknown as Table<Tables[K]>;
  }

  #openTable<T extends Entity>(layout: TableLayout): Table<T> {
    const { name } = layout;
    const single = <R>(work: (attempt: Attempt) => Promise<R>) => this.#transactions.run(work, undefined);
    const read = async (id: string) => {
      this.#open();
      this.#gets++;
      return (await this.#loader.entity(layout, id)).body;
    };
    return {
      get: async (id) => (await read(id))?.copy<T>(),
      peek: async (id) => (await read(id))?.view<T>(),
      list: (query) => this.#queries.list<T>(layout, query ?? {}),
      ids: (query) => this.#queries.ids(layout, query ?? {}),
      countBy: (field, query) => this.#queries.byFacet(layout, field, query ?? {}),
      sumBy: (field, number, query) => this.#queries.byFacet(layout, field, query ?? {}, number),
      insert: (entity) => single((attempt) => attempt.insert(name, entity)),
      change: (id, fn) => single((attempt) => attempt.change(name, id, fn as never)),
      remove: (id) => single((attempt) => attempt.remove(name, id)),
    };
  }

  log<K extends LogName>(name: K): Log<Logs[K]> {
    if (this.#parts.layouts.has(name)) throw new TypeError(`"${name}" is a table, not a log`);
    return {
      append: (key, entry) =>
        this.#transactions.run((attempt) => attempt.append(name, key, entry), undefined),
      read: (key, range) => this.#queries.readLog<Logs[K]>(name, key, range ?? {}),
      last: async (key) => {
        this.#open();
        return (await this.#loader.end(name, key)).last;
      },
    };
  }

  transaction<T>(work: (tx: Transaction) => Promise<T>, options: TransactionOptions = {}): Promise<T> {
    return this.#transactions.run(work as unknown as (attempt: Attempt) => Promise<T>, options.fence);
  }

  async now(): Promise<Date> {
    this.#open();
    const asked = performance.now();
    const [row] = await this.#reads.query(
      "select extract(epoch from clock_timestamp())::float8 * 1000 as now",
      [],
    );
    const now = row!.now as number;
    this.#clock.note(now, { asked, answered: performance.now() });
    return new Date(now);
  }

  readonly time = (): number => this.#clock.now();

  health(): StoreHealth {
    if (this.#closed !== undefined) return { writable: false, error: "The store is closed" };
    return this.#health.describe();
  }

  async stats(): Promise<StoreStats> {
    this.#open();
    const entities = [...this.#parts.layouts.values()].filter(({ spec }) => spec.entity);
    const counts = entities.map((layout) => `(${this.#queries.countSql(layout, {}, new Parameters())})`);
    const [row] = await this.#reads.query(
      `select array[${counts.join(", ")}]::float8[] as counts, (
         select coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8
         from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relkind = 'r') as bytes`,
      [this.#parts.options.schema],
    );
    const { counts: numbers, bytes } = row as { counts: number[]; bytes: number };
    return {
      database: `Postgres ${this.#parts.server.version}`,
      tables: Object.fromEntries(entities.map(({ name }, at) => [name, numbers[at]!])),
      bytes,
      reads: this.#gets + this.#queries.read + this.#transactions.reads,
      writes: this.#transactions.writes,
      details: { commits: this.#committer.groups, conflicts: this.#transactions.conflicts },
    };
  }

  async snapshot(): Promise<StoreSnapshot> {
    this.#open();
    try {
      return await takeSnapshot(await this.#parts.connections.single(), this.#parts.options.schema);
    } catch (error) {
      throw explain(error);
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#finish();
    return this.#closed;
  }

  async #finish(): Promise<void> {
    this.#upkeep.stop();
    await this.#transactions.idle();
    await this.#committer.close();
    this.#reads.close();
    this.#health.close();
    this.#ending.abort();
    await this.#arranged;
    await this.hints.close();
    await this.#parts.connections.close();
  }

  #layoutOf(name: string): TableLayout {
    const layout = this.#parts.layouts.get(name);
    if (layout === undefined) throw new TypeError(`The store has no table "${name}"`);
    return layout;
  }

  #open(): void {
    if (this.#closed !== undefined) throw closedError();
  }
}
