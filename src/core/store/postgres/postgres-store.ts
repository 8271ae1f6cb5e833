import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { delays } from "../../base/backoff.ts";
import { getOrMake } from "../../base/get-or-make.ts";
import { Mutex } from "../../base/mutex.ts";
import { ClosedStoreError } from "../closed.ts";
import { Body } from "../engine/body.ts";
import type { StoreSnapshot } from "../engine/snapshot.ts";
import { closedError, storageError } from "../storage-error.ts";
import {
  type Entity,
  FencedError,
  type IndexValue,
  type Joins,
  type ListQuery,
  type Log,
  type LogEntry,
  type LogName,
  type Logs,
  type Page,
  type Position,
  type Store,
  type StoreHealth,
  type StoreLogger,
  type StoreStats,
  type Table,
  type TableName,
  type TableSpec,
  type Tables,
  type Transaction,
  type TransactionOptions,
} from "../store.ts";
import { arrangeIndexes } from "./arrange-indexes.ts";
import { type AgedId, Attempt, entityKey, facetKey, type Source } from "./attempt.ts";
import { readMark } from "./closed-database.ts";
import { CommitFunction } from "./commit-sql.ts";
import { Committer } from "./committer.ts";
import {
  type Client,
  Connections,
  explain,
  isOfDatabase,
  isRefusal,
  isServerRefusal,
  isStarting,
  loadPg,
} from "./connection.ts";
import { DatabaseClock } from "./database-clock.ts";
import { takeSnapshot } from "./database-content.ts";
import { DatabaseHealth } from "./database-health.ts";
import { changedFacets } from "./group.ts";
import type { Outcome } from "./group-outcome.ts";
import { type EntityHead, Heads, isPending, type LogHead } from "./heads.ts";
import { HourTallies } from "./hour-tallies.ts";
import { JoinedReads } from "./joined-reads.ts";
import { Loader } from "./loader.ts";
import { inspect, migrate, type Server, trigramsOf } from "./migrate.ts";
import { limitsOf, pageSql } from "./page-sql.ts";
import { PostgresContents } from "./postgres-contents.ts";
import { PostgresHints } from "./postgres-hints.ts";
import { PostgresLives } from "./postgres-lives.ts";
import { isClearText, isPostgresUrl, PostgresDefaults, type PostgresOptions } from "./postgres-options.ts";
import {
  conditionOf,
  countConditionOf,
  fieldsOf,
  type Lower,
  orderOf,
  Parameters,
  searchOf,
  sortedBy,
  sortOf,
} from "./query-sql.ts";
import { constant, fromColumn, identifier } from "./sql-text.ts";
import { TableLayout, valueIn } from "./table-layout.ts";
import { vacuumOften } from "./vacuum-often.ts";

/** What is kept of entities that were read or written: their number, and characters of JSON. */
const KEPT = { count: 50_000, size: 64 * 1024 * 1024 };
/** Milliseconds that a transaction may hold up others, or run again because of conflicts. */
const PATIENCE = 30_000;
/** Number of conflicts with others from which on the patience counts. */
const CONFLICTS = 20;
const CONFLICTED = delays({ first: 1, most: 100, jitter: 1 });
/** Entities that are indexed again at a time. */
const BATCH = 200;
/** Entities that a search finds first, and a query then by their ids: with more, it walks through all in order. */
const FEW = 5000;
/** Milliseconds that a start waits for a database which is about to start. */
const STARTING = 8000;
/** Milliseconds between two searches for entities that older code has written. */
const RECHECK = 5000;
/** As many of those searches are between two searches for hours that are over. */
const TALLY = 12;
/** Counts of hours that fail in a row before the log says so, once until one succeeds. */
const NOTED_FAILURES = 3;

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

/** Waits for a database that is about to start, as one does that starts together with the service. */
async function connectFirst(connections: Connections, log: StoreLogger): Promise<Client> {
  const until = performance.now() + STARTING;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await connections.primary();
    } catch (error) {
      if (!isStarting(error) || performance.now() > until) throw error;
      if (isFirst)
        log.warn("the database does not answer yet: the start waits for it", { seconds: STARTING / 1000 });
      await delay(250);
    }
  }
}

/** What people should know of a database that works. */
function warningsOf(
  url: string,
  { isLazy, isSearchSlow }: Pick<Server, "isLazy"> & { isSearchSlow: boolean },
): string[] {
  return [
    ...(isClearText(url)
      ? [
          "The connection to the database is not encrypted, and the database is on another host: add sslmode=verify-full to its URL, where the network is not your own",
        ]
      : []),
    ...(isLazy
      ? [
          "The database has synchronous_commit = off for this user: the service turns it on for what it writes, as acknowledged writes must not be lost",
        ]
      : []),
    ...(isSearchSlow
      ? [
          "The database lacks the extension pg_trgm, which this user may not create: searches read all texts. Have an administrator run: create extension pg_trgm",
        ]
      : []),
  ];
}

/** The numbers of a table by hour, and until when they are known. */
interface KnownTallies {
  readonly kept: HourTallies;
  until: number | undefined;
}

/** What a transaction's work came to: its value, or what it threw. */
type Result<T> = { readonly value: T } | { readonly error: unknown };

class PostgresStore implements Store, Source {
  readonly isShared = true;
  readonly relates = true;
  readonly hints: PostgresHints;
  readonly lives: PostgresLives;
  readonly contents: PostgresContents;
  readonly #connections: Connections;
  readonly #layouts: ReadonlyMap<string, TableLayout>;
  readonly #server: Server;
  readonly #log: StoreLogger;
  /** Quoted. */
  readonly #schema: string;
  readonly #schemaName: string;
  readonly #lower: Lower;
  readonly #heads = new Heads<EntityHead>(KEPT, ({ body }) => body?.length ?? 0);
  readonly #logHeads = new Heads<LogHead>(KEPT, () => 0);
  readonly #loader: Loader;
  readonly #joined = new JoinedReads((text, values) => this.#query(text, values));
  readonly #committer: Committer;
  /** Transactions in the order in which they began: they end in this order, too. */
  readonly #mutex = new Mutex();
  readonly #faces = new Map<string, Table<Entity>>();
  /** Of each table that has some. */
  readonly #tallies = new Map<TableLayout, KnownTallies>();
  #tallyFailures = 0;
  /** What is on its way and changes which entities have a facet's value. */
  readonly #facetWrites = new Map<string, Set<Attempt>>();
  /** Number of the last change of a facet's value. */
  readonly #facetChanges = new Map<string, number>();
  /** Ids of entities that this process has inserted since facets' changes are remembered. */
  readonly #inserted = new Set<IndexValue>();
  #changes = 0;
  /** Changes up to this number are forgotten. */
  #forgotten = 0;
  readonly #health: DatabaseHealth;
  readonly #clock = new DatabaseClock();
  readonly #recheckAfter: number;
  #recheck: NodeJS.Timeout | undefined;
  readonly #ending = new AbortController();
  #arranged: Promise<void> | undefined;
  #closed: Promise<void> | undefined;
  #isEnded = false;
  #reads = 0;
  #writes = 0;
  #conflicts = 0;

  constructor(parts: {
    connections: Connections;
    layouts: ReadonlyMap<string, TableLayout>;
    server: Server;
    log: StoreLogger;
    options: Required<PostgresOptions>;
    recheck: number;
  }) {
    const { connections, layouts, server, log, options } = parts;
    this.#recheckAfter = parts.recheck;
    this.#connections = connections;
    this.#layouts = layouts;
    this.#server = server;
    this.#log = log;
    this.#schemaName = options.schema;
    this.#schema = identifier(options.schema);
    for (const layout of layouts.values())
      if (layout.spec.tallies) this.#tallies.set(layout, { kept: new HourTallies(layout), until: undefined });
    const collation = server.hasUnicode ? ' collate "und-x-icu"' : "";
    this.#lower = (expression) => `lower(${expression}${collation}) collate "C"`;
    this.#loader = new Loader({
      read: (text, values, options) => this.#query(text, values, options),
      heads: this.#heads,
      logs: this.#logHeads,
      logTable: `${this.#schema}._log`,
      lower: this.#lower,
    });
    this.#health = new DatabaseHealth({ log, read: () => connections.read("select 1") });
    this.#committer = new Committer({
      connections,
      ...{ schema: options.schema, lockTimeout: options.lockTimeout },
      commit: new CommitFunction(this.#schema, layouts.values()),
      onSettled: (attempt, outcome) => this.#settle(attempt, outcome),
      health: this.#health,
    });
    this.lives = new PostgresLives(this.#schema, {
      beat: async (text, values) => {
        if (this.#isEnded) throw closedError();
        const beat = () => connections.beat(text, values, PostgresLives.limit);
        try {
          await beat();
        } catch (error) {
          // It is often the first write that shows it.
          if (isServerRefusal(error)) this.#health.refused(error, beat);
          throw explain(error);
        }
      },
      read: (text, values) => this.#joined.query(text, values, "now"),
      clock: this.#clock,
    });
    this.contents = new PostgresContents(this.#schema, (text, values) => this.#query(text, values));
    connections.onUnprepared = () =>
      log.warn(
        "Something between the service and the database loses prepared statements, as PgBouncer does in transaction mode: the service uses none from now on. Add pgbouncer=true to the URL of the database",
      );
    this.hints = new PostgresHints(connections, { schema: options.schema, sender: randomUUID() });
  }

  /** Registers as a writer, brings index values up to date, and listens, on a connection of its own. */
  async start(client: Client): Promise<void> {
    try {
      await this.#committer.register();
      await this.now();
      for (const layout of await this.#outdated(differs)) await this.#indexAgain(layout, differs(layout));
      for (const tallies of this.#tallies.values()) await this.#readTallied(tallies);
    } catch (error) {
      throw explain(error);
    }
    await this.hints.start(client);
    this.#watchOlder(0);
    this.#arranged = arrangeIndexes({
      ...{ schema: this.#schemaName, layouts: [...this.#layouts.values()], log: this.#log },
      read: (text, values) => this.#query(text, values),
      connect: () => this.#connections.single(),
      signal: this.#ending.signal,
    });
  }

  /**
   * Looks again and again for what older code has written meanwhile, whose instances may still run, and for hours that
   * are over.
   */
  #watchOlder(looks: number): void {
    const older = (layout: TableLayout) => isOlder(layout, this.#schema);
    const look = async () => {
      if (looks % TALLY === 0) await this.#tally();
      for (const layout of await this.#outdated(older, "soon")) await this.#indexAgain(layout, older(layout));
    };
    this.#recheck = setTimeout(() => {
      // What keeps it from looking is reported where it matters; it looks again.
      void look()
        .catch(() => {})
        .finally(() => this.#closed === undefined && this.#watchOlder(looks + 1));
    }, this.#recheckAfter).unref();
  }

  /** Reads until when the hours of a table are counted: those before remain so. Resolves with whether it has any entity. */
  async #readTallied(tallies: KnownTallies, joins?: Joins): Promise<boolean> {
    const [row] = await this.#poll(joins, tallies.kept.stateSql, []);
    tallies.until = (row?.until ?? undefined) as number | undefined;
    return row?.any === true;
  }

  /** Counts the entities of hours that are over. Until that is done, or where it fails, they are counted when they are asked for. */
  async #tally(): Promise<void> {
    try {
      await this.#tallyAll();
      this.#tallyFailures = 0;
    } catch (error) {
      // A busy table, or a server that is away for a moment, is no news.
      if (++this.#tallyFailures !== NOTED_FAILURES) return;
      this.#log.warn(
        "the hours of figures could not be counted several times in a row: until they are, figures over a time are counted from the jobs, which takes longer",
        { error: explain(error) },
      );
    }
  }

  async #tallyAll(): Promise<void> {
    const due = HourTallies.due(this.time());
    for (const tallies of this.#tallies.values()) {
      const isEmpty = !(await this.#readTallied(tallies, "soon"));
      if (isEmpty || (tallies.until !== undefined && tallies.until >= due)) continue;
      const client = await this.#connections.single();
      try {
        while (this.#closed === undefined) {
          tallies.until = await tallies.kept.count(client, due);
          if (tallies.until === undefined || tallies.until >= due) break;
        }
      } finally {
        await client.end().catch(() => {});
      }
    }
  }

  table<K extends TableName>(name: K): Table<Tables[K]> {
    const make = () => this.#openTable<Tables[K]>(this.layoutOf(name)) as unknown as Table<Entity>;
    return getOrMake(this.#faces, name, make) as unknown as Table<Tables[K]>;
  }

  #openTable<T extends Entity>(layout: TableLayout): Table<T> {
    const { name } = layout;
    const single = <R>(work: (attempt: Attempt) => Promise<R>) => this.#transact(work, undefined);
    const read = async (id: string) => {
      this.#open();
      this.#reads++;
      return (await this.#loader.entity(layout, id)).body;
    };
    return {
      get: async (id) => (await read(id))?.copy<T>(),
      peek: async (id) => (await read(id))?.view<T>(),
      list: (query) => this.#list<T>(layout, query ?? {}),
      ids: (query) => this.#ids(layout, query ?? {}),
      countBy: (field, query) => this.#byFacet(layout, field, query ?? {}),
      sumBy: (field, number, query) => this.#byFacet(layout, field, query ?? {}, number),
      insert: (entity) => single((attempt) => attempt.insert(name, entity)),
      change: (id, fn) => single((attempt) => attempt.change(name, id, fn as never)),
      remove: (id) => single((attempt) => attempt.remove(name, id)),
    };
  }

  log<K extends LogName>(name: K): Log<Logs[K]> {
    if (this.#layouts.has(name)) throw new TypeError(`"${name}" is a table, not a log`);
    return {
      append: (key, entry) => this.#transact((attempt) => attempt.append(name, key, entry), undefined),
      read: (key, range) => this.#readLog<Logs[K]>(name, key, range ?? {}),
      last: async (key) => {
        this.#open();
        return (await this.#loader.end(name, key)).last;
      },
    };
  }

  transaction<T>(work: (tx: Transaction) => Promise<T>, options: TransactionOptions = {}): Promise<T> {
    return this.#transact(work as unknown as (attempt: Attempt) => Promise<T>, options.fence);
  }

  async now(): Promise<Date> {
    this.#open();
    const asked = performance.now();
    const [row] = await this.#query("select extract(epoch from clock_timestamp())::float8 * 1000 as now", []);
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
    const entities = [...this.#layouts.values()].filter(({ spec }) => spec.entity);
    const counts = entities.map((layout) => `(${this.#countSql(layout, {}, new Parameters())})`);
    const [row] = await this.#query(
      `select array[${counts.join(", ")}]::float8[] as counts, (
         select coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8
         from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relkind = 'r') as bytes`,
      [this.#schemaName],
    );
    const { counts: numbers, bytes } = row as { counts: number[]; bytes: number };
    return {
      database: `Postgres ${this.#server.version}`,
      tables: Object.fromEntries(entities.map(({ name }, at) => [name, numbers[at]!])),
      bytes,
      ...{ reads: this.#reads, writes: this.#writes },
      details: { commits: this.#committer.groups, conflicts: this.#conflicts },
    };
  }

  async snapshot(): Promise<StoreSnapshot> {
    this.#open();
    try {
      return await takeSnapshot(await this.#connections.single(), this.#schemaName);
    } catch (error) {
      throw explain(error);
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#finish();
    return this.#closed;
  }

  async #finish(): Promise<void> {
    await this.#mutex.idle();
    await this.#committer.close();
    this.#isEnded = true;
    this.#joined.close();
    this.#health.close();
    clearTimeout(this.#recheck);
    this.#ending.abort();
    await this.#arranged;
    await this.hints.close();
    await this.#connections.close();
  }

  // What attempts read.

  layoutOf(name: string): TableLayout {
    const layout = this.#layouts.get(name);
    if (layout === undefined) throw new TypeError(`The store has no table "${name}"`);
    return layout;
  }

  known(key: string): EntityHead | undefined {
    return this.#heads.pending(key) ?? this.#heads.kept(key);
  }

  pending(key: string): EntityHead | undefined {
    return this.#heads.pending(key);
  }

  load(layout: TableLayout, id: string): Promise<EntityHead> {
    this.#reads++;
    return this.#loader.entity(layout, id);
  }

  knownLog(key: string): LogHead | undefined {
    return this.#logHeads.pending(key) ?? this.#logHeads.kept(key);
  }

  pendingLog(key: string): LogHead | undefined {
    return this.#logHeads.pending(key);
  }

  loadLog(log: string, id: string): Promise<LogHead> {
    return this.#loader.end(log, id);
  }

  /** What names an entity that is new has that as a change here: unless another process has done it, which the commit finds. */
  guessNone(key: string, value: IndexValue): number | undefined {
    return this.#inserted.has(value) && !this.#facetChanges.has(key) ? this.#changes : undefined;
  }

  async loadIds(
    layout: TableLayout,
    field: string,
    value: IndexValue,
  ): Promise<{ ids: AgedId[]; change: number }> {
    const key = facetKey(layout, field, value);
    for (let writes = this.#facetWrites.get(key); writes; writes = this.#facetWrites.get(key)) {
      await Promise.all([...writes].map((attempt) => this.#ends.get(attempt)));
    }
    const change = this.#changes;
    const ids = await this.#loader.ids(layout, field, value);
    this.#reads += ids.length;
    return { ids, change };
  }

  // Transactions.

  /** What attempts on their way come to. */
  readonly #ends = new Map<Attempt, Promise<unknown>>();

  async #transact<T>(work: (attempt: Attempt) => Promise<T>, fence: TransactionOptions["fence"]): Promise<T> {
    const deadline = performance.now() + PATIENCE;
    for (let conflicts = 0; ; conflicts++) {
      this.#open();
      const { obstacle } = this.#health;
      if (obstacle !== undefined) throw obstacle;
      const turn = this.#mutex.enter();
      let result: Result<T>;
      let end: Promise<Outcome>;
      try {
        let attempt = new Attempt(this, conflicts > 0);
        result = await this.#run(work, attempt);
        if (turn) await turn;
        // Until it leaves the line nobody else writes: the next run sees the newest state.
        while (!this.#isCurrent(attempt)) {
          attempt = new Attempt(this, false);
          result = await this.#run(work, attempt);
        }
        if ("error" in result) attempt.dropWrites();
        if (fence !== undefined) {
          const refusal = this.#setFence(attempt, fence);
          if (refusal !== undefined) result = { error: refusal };
        }
        end = this.#submit(attempt);
      } finally {
        this.#mutex.leave(turn);
      }
      const outcome = await end;
      if (outcome === "fenced") throw new FencedError(fence!);
      if (outcome === "stored") {
        if ("error" in result) throw result.error;
        return result.value;
      }
      this.#conflicts++;
      if (conflicts >= CONFLICTS && performance.now() > deadline) {
        throw storageError(
          "A write kept conflicting with those of other instances",
          "Nothing was changed; retry it.",
        );
      }
      if (conflicts > 0) await delay(CONFLICTED(conflicts));
    }
  }

  /** Runs work; one that others wait for too long is given up. */
  async #run<T>(work: (attempt: Attempt) => Promise<T>, attempt: Attempt): Promise<Result<T>> {
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(
        () => reject(new Error(`a transaction blocked other writers for ${PATIENCE / 1000} s`)),
        PATIENCE,
      ).unref();
    });
    try {
      return { value: await Promise.race([work(attempt), limit]) };
    } catch (error) {
      if (this.#health.outage !== undefined && isConnectionLoss(error)) throw explain(error);
      return { error };
    } finally {
      clearTimeout(timer);
      attempt.end();
    }
  }

  /** Whether what an attempt has read is still the newest that this process knows. */
  #isCurrent(attempt: Attempt): boolean {
    for (const other of attempt.after) if (other.state === "failed") return false;
    for (const head of attempt.reads.values()) {
      const newest = this.#heads.newest(head.key);
      if (newest === undefined || newest === head) continue;
      if (isPending(newest) || isPending(head) || newest.version !== head.version) return false;
    }
    for (const head of attempt.logReads.values()) {
      const newest = this.#logHeads.newest(head.key);
      if (newest === undefined || newest === head) continue;
      if (isPending(newest) || isPending(head) || newest.last !== head.last) return false;
    }
    return attempt.idReads.every(
      ({ key, change }) =>
        change >= this.#forgotten &&
        (this.#facetChanges.get(key) ?? 0) <= change &&
        !this.#facetWrites.has(key),
    );
  }

  /**
   * Has the fence checked: here by what is on its way, else by the database. Returns why the transaction must not be
   * stored.
   */
  #setFence(attempt: Attempt, fence: NonNullable<TransactionOptions["fence"]>): Error | undefined {
    const layout = this.layoutOf(fence.table ?? "Job");
    const head = this.#heads.pending(entityKey(layout, fence.job));
    if (head === undefined) {
      attempt.fence = fence;
      attempt.fenceTable = layout;
      return undefined;
    }
    attempt.after.add(head.by!);
    if (head.body?.view<{ run_count?: number }>().run_count === fence.epoch) return undefined;
    attempt.dropWrites();
    // It is final only once what it was seen in is stored.
    return new FencedError(fence);
  }

  /** Passes an attempt on to be stored, or only compared with the database where it has written nothing. */
  #submit(attempt: Attempt): Promise<Outcome> {
    const isDone =
      !attempt.hasWrites && attempt.fence === undefined && attempt.after.size === 0 && attempt.isSingleRead;
    if (isDone) return Promise.resolve("stored");
    this.#writes += attempt.puts.size;
    for (const head of attempt.puts.values()) {
      this.#heads.add(head);
      if (attempt.reads.get(head.key)!.body === undefined) this.#inserted.add(head.id);
    }
    for (const { head, entries } of attempt.logWrites.values()) {
      this.#logHeads.add(head);
      this.#writes += entries.length;
    }
    for (const key of changedFacets(attempt)) {
      this.#facetChanges.set(key, ++this.#changes);
      getOrMake(this.#facetWrites, key, () => new Set()).add(attempt);
    }
    const end = this.#committer.commit(attempt);
    this.#ends.set(
      attempt,
      end.catch(() => {}),
    );
    return end;
  }

  /** Called when it is known what became of an attempt. */
  #settle(attempt: Attempt, outcome: Outcome | "refused"): void {
    this.#ends.delete(attempt);
    if (outcome === "stored") {
      this.#loader.stored++;
      this.#health.answered();
    }
    for (const head of attempt.puts.values()) {
      if (outcome === "stored") this.#heads.settle(head);
      else this.#heads.abandon(head);
    }
    for (const { head } of attempt.logWrites.values()) {
      if (outcome === "stored") this.#logHeads.settle(head);
      else this.#logHeads.abandon(head);
    }
    if (outcome !== "stored") {
      for (const key of attempt.reads.keys()) this.#heads.forget(key);
      for (const key of attempt.logReads.keys()) this.#logHeads.forget(key);
      if (attempt.fence) this.#heads.forget(entityKey(attempt.fenceTable!, attempt.fence.job));
    }
    for (const key of changedFacets(attempt)) {
      const writes = this.#facetWrites.get(key);
      writes?.delete(attempt);
      if (writes?.size === 0) this.#facetWrites.delete(key);
    }
    if (this.#facetChanges.size + this.#inserted.size < KEPT.count) return;
    this.#facetChanges.clear();
    this.#inserted.clear();
    this.#forgotten = this.#changes;
  }

  // Reads.

  async #list<T>(layout: TableLayout, asked: ListQuery): Promise<Page<T>> {
    this.#open();
    await this.#checkFields(layout, asked);
    const query = await this.#searchFirst(layout, asked);
    const parameters = new Parameters();
    const where = conditionOf(layout, query, { parameters, lower: this.#lower });
    const sort = sortOf(layout, query.sort);
    const { limit = 50, skip = 0 } = query;
    // One more than the page has tells whether it is the last one.
    const most = limit === 0 ? 0 : limit + 1;
    const page = pageSql(layout, { ...query, limit: most }, { where, sort, parameters });
    const total = query.uncounted
      ? `select ${parameters.add(skip, "float8")} + count(*) from p`
      : this.#pageTotalSql(layout, query, { most, skip, parameters });
    // All is seen at one moment.
    const rows = await this.#poll(
      query.joins,
      `with ${page}
       select c.total, p.body, p.id, p.text, p.number
       from (select (${total})::float8 as total) c left join p on true order by p.n`,
      parameters.values,
    );
    const found = rows.filter(({ body }) => body !== null).slice(0, limit);
    const items = found.map(({ body }) => Body.from(body as string).copy<T>());
    this.#reads += items.length;
    const last = rows.length > limit ? found.at(-1) : undefined;
    return { items, total: rows[0]!.total as number, ...(last && { next: positionOf(last) }) };
  }

  /** A query by the ids of what it searches for, where these are few: no plan is worse, and they are found once. */
  async #searchFirst(layout: TableLayout, query: ListQuery): Promise<ListQuery> {
    const { search, ...rest } = query;
    if (!search || !layout.spec.text || query.where?.id !== undefined) return query;
    const parameters = new Parameters();
    // Planned for all of them: a plan for the first ones could be to read the whole table.
    const rows = await this.#query(
      `with found as materialized (select id from ${layout.texts} where ${searchOf(search, parameters)})
       select id from found limit ${FEW + 1}`,
      parameters.values,
    );
    if (rows.length > FEW) return query;
    return { ...rest, where: { ...query.where, id: rows.map(({ id }) => fromColumn(id as string)) } };
  }

  /** How many entities a query has. Where its first page is not full, there is nothing to count. */
  #pageTotalSql(
    layout: TableLayout,
    query: ListQuery,
    { most, skip, parameters }: { most: number; skip: number; parameters: Parameters },
  ): string {
    const count = this.#countSql(layout, query, parameters);
    if (query.after) return count;
    const full = parameters.add(most === Number.POSITIVE_INFINITY ? null : most, "float8");
    const first = parameters.add(skip, "float8");
    const found = "(select count(*) from p)";
    return `select case when ${found} between case ${first} when 0 then 0 else 1 end and coalesce(${full} - 1, 'Infinity')
      then ${found} + ${first} else (${count}) end::float8`;
  }

  /** How many entities a query has. */
  #countSql(layout: TableLayout, query: ListQuery, parameters: Parameters): string {
    const parts = { parameters, lower: this.#lower };
    const kept = countConditionOf(layout, query, parts);
    if (kept !== undefined) return `select coalesce(sum(n), 0)::float8 from ${layout.counts} where ${kept}`;
    const tallied = this.#talliedSql(layout, undefined, query, parameters);
    if (tallied !== undefined) return `select coalesce(sum(n), 0)::float8 from (${tallied}) t`;
    const isSearchAlone =
      query.search && layout.spec.text && fieldsOf({ where: query.where ?? {} }).length === 0;
    return isSearchAlone
      ? `select count(*) from ${layout.texts} where ${searchOf(query.search!, parameters)}`
      : `select count(*) from ${layout.table} where ${conditionOf(layout, query, parts)}`;
  }

  /** How many entities a query has, by hours that are over: see `HourTallies`. */
  #talliedSql(
    layout: TableLayout,
    field: string | undefined,
    query: ListQuery,
    parameters: Parameters,
  ): string | undefined {
    const tallies = this.#tallies.get(layout);
    return tallies?.kept.read(query, { field, until: tallies.until, parameters, lower: this.#lower });
  }

  async #ids(layout: TableLayout, query: ListQuery): Promise<string[]> {
    this.#open();
    await this.#checkFields(layout, query);
    const parameters = new Parameters();
    const where = conditionOf(layout, query, { parameters, lower: this.#lower });
    const order = orderOf(layout, sortOf(layout, query.sort), { live: query.live, parameters });
    const rows = await this.#poll(
      query.joins,
      `select id from ${layout.table} where ${where} order by ${order} ${limitsOf(query, parameters)}`,
      parameters.values,
    );
    return rows.map(({ id }) => fromColumn(id as string));
  }

  /** How many entities have each value of a facet, or the sums of a number of theirs. */
  async #byFacet(
    layout: TableLayout,
    field: string,
    asked: ListQuery,
    summed?: string,
  ): Promise<Record<string, number>> {
    this.#open();
    if (!layout.isFacet(field) && (summed !== undefined || !layout.isSpan(field)))
      throw new TypeError(`Table ${layout.name} has no facet "${field}"`);
    await this.#checkFields(layout, { ...asked, sort: summed });
    const query = await this.#searchFirst(layout, asked);
    const parameters = new Parameters();
    const parts = { parameters, lower: this.#lower };
    const mayBeKept = summed === undefined;
    const kept =
      mayBeKept && layout.counted.includes(field) ? countConditionOf(layout, query, parts) : undefined;
    const tallied =
      mayBeKept && kept === undefined ? this.#talliedSql(layout, field, query, parameters) : undefined;
    const { text, number } =
      kept !== undefined
        ? layout.countSqlOf(field)
        : tallied === undefined
          ? layout.countedSqlOf(field)
          : { text: "text", number: "number" };
    const sumOrCount = () =>
      summed === undefined ? "count(*)" : `sum(${sortedBy(layout, summed, { ...query, parameters }).number})`;
    const [count, table, where] =
      kept !== undefined
        ? ["sum(n)", layout.counts, kept]
        : tallied === undefined
          ? [sumOrCount(), layout.table, conditionOf(layout, query, parts)]
          : ["sum(n)", `(${tallied}) t`, "true"];
    const rows = await this.#poll(
      query.joins,
      `select ${text} as text, ${number} as number, ${count}::float8 as count from ${table}
       where ${where} group by 1, 2 having ${count} <> 0`,
      parameters.values,
    );
    const counts = rows.map((row): [string, number] => {
      const {
        text: own,
        number: value,
        count,
      } = row as {
        text: string | null;
        number: number | null;
        count: number;
      };
      return [String(valueIn(own === null ? null : fromColumn(own), value)), count];
    });
    return Object.fromEntries(counts);
  }

  async #readLog<E>(
    log: string,
    key: string,
    { after = 0, limit = Number.POSITIVE_INFINITY }: { after?: number; limit?: number },
  ): Promise<LogEntry<E>[]> {
    this.#open();
    const most = limit === Number.POSITIVE_INFINITY ? null : limit;
    const rows = await this.#loader.entries(log, { id: key, after: Math.max(after, 0), limit: most });
    this.#reads += rows.length;
    return rows.map(({ seq, body }) => ({ seq, entry: JSON.parse(body) as E }));
  }

  /** Refuses fields that no entity has. They are known from the first entity on. */
  async #checkFields(layout: TableLayout, query: ListQuery): Promise<void> {
    // What is asked again and again is asked by the service itself.
    if (query.joins !== undefined) return;
    const unknown = () => fieldsOf(query).filter((field) => !layout.knows(field));
    if (unknown().length === 0) return;
    const rows = await this.#query(`select _rest as rest from ${layout.table} limit 1`, []);
    if (rows.length === 0) return;
    layout.learn(Object.keys(rows[0]!.rest as object));
    const [field] = unknown();
    if (field !== undefined) throw new TypeError(`Table ${layout.name} has no index field "${field}"`);
  }

  /** Tables with entities whose index values are of another version. */
  async #outdated(condition: (layout: TableLayout) => string, joins?: Joins): Promise<TableLayout[]> {
    const all = [...this.#layouts.values()];
    const tests = all.map((layout) => `exists (select 1 from ${layout.table} where ${condition(layout)})`);
    const text = `select array[${tests.join(", ")}]::boolean[] as outdated`;
    const [row] = await this.#poll(joins, text, []);
    return all.filter((_, at) => (row!.outdated as boolean[])[at]);
  }

  /** Computes the index values of entities that were stored with those of another version. */
  async #indexAgain(layout: TableLayout, condition: string): Promise<void> {
    let count = 0;
    for (let last = ""; ; ) {
      const rows = await this.#query(
        `select id from ${layout.table} where ${condition} and id > $1 order by id limit ${BATCH}`,
        [last],
      );
      if (rows.length === 0) break;
      last = rows.at(-1)!.id as string;
      await Promise.all(
        rows.map(({ id }) => {
          const rewrite = (attempt: Attempt) => attempt.rewrite(layout, fromColumn(id as string));
          return this.#transact(rewrite, undefined);
        }),
      );
      count += rows.length;
    }
    if (count > 0)
      this.#log.info("index values were computed again", { table: layout.name, entities: count });
  }

  #poll(joins: Joins | undefined, text: string, values: readonly unknown[]) {
    return joins === undefined ? this.#query(text, values) : this.#joined.query(text, values, joins);
  }

  async #query(
    text: string,
    values: readonly unknown[],
    { steady = false } = {},
  ): Promise<Record<string, unknown>[]> {
    if (this.#isEnded) throw closedError();
    const { outage } = this.#health;
    if (outage !== undefined) throw outage;
    try {
      const rows = await this.#connections.read(text, values, { steady });
      this.#health.answered();
      return rows;
    } catch (error) {
      if (!isRefusal(error)) this.#health.goDown(error);
      throw explain(error);
    }
  }

  // Outages.

  #open(): void {
    if (this.#closed !== undefined) throw closedError();
  }
}

function isConnectionLoss(error: unknown): boolean {
  return error instanceof Error && "type" in error && error.type === "storage_error";
}

/** The place of a row in the order that it was found in. */
function positionOf({ id, text, number }: Record<string, unknown>): Position {
  const value = valueIn(text === null ? null : fromColumn(text as string), number as number | null);
  return { id: fromColumn(id as string), value };
}

/** That the index values of a row are of another version. */
function differs({ version }: TableLayout): string {
  return `_v <> ${constant(version)}`;
}

/**
 * The same of an older version, or of this one with other columns while nobody has changed the columns since: two
 * instances never undo what the other one does.
 */
function isOlder(layout: TableLayout, schema: string): string {
  const number = "split_part(_v, '.', 1)::int";
  const isCurrent = `exists (select 1 from ${schema}._table t where t.name = ${constant(layout.name)} and t.version = ${constant(layout.version)})`;
  return `${differs(layout)} and (${number} < ${layout.spec.version} or (${number} = ${layout.spec.version} and ${isCurrent}))`;
}
