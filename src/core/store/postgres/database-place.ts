import type { UnstorageStorage } from "../../storage/open-storage.ts";
import type { Mark } from "../closed.ts";
import { type Content, type PartSum, sumsOf } from "../content.ts";
import { type Keyring, NO_KEYS } from "../encryption/keyring.ts";
import { sealedSpecs } from "../encryption/sealed-row.ts";
import type { Place, PlaceState } from "../move.ts";
import { storageError } from "../storage-error.ts";
import type { TableSpec } from "../store.ts";
import { CORE_TABLES } from "../tables.ts";
import { CONTENTS, hasAddition } from "./additions.ts";
import { lockWriters, readMark, setMark } from "./closed-database.ts";
import { type Client, Connections, explain, isOfDatabase, loadPg } from "./connection.ts";
import { beginReading, contentOfDatabase } from "./database-content.ts";
import { contentNames, fillDatabase, plainLayout, refuseLiving } from "./fill-database.ts";
import { inspect, isMade, migrate } from "./migrate.ts";
import { PostgresContents } from "./postgres-contents.ts";
import { isPostgresUrl, PostgresDefaults } from "./postgres-options.ts";
import { hashOf, identifier } from "./sql-text.ts";
import { TableLayout } from "./table-layout.ts";

/** A schema of a Postgres database, as a place that a store is moved from or to. */
export class DatabasePlace implements Place {
  readonly name: string;
  readonly #options: { readonly url: string; readonly schema: string };
  /** The tables, whose index values need the keys of what is encrypted. */
  readonly #specs: readonly TableSpec[];
  #connections: Connections | undefined;
  /** Has the lock while its transaction is open. */
  #guard: Client | undefined;

  constructor({
    url,
    schema = PostgresDefaults.schema,
    keys = NO_KEYS,
  }: { url: string; schema?: string | undefined; keys?: Keyring }) {
    this.#options = { url, schema };
    this.#specs = sealedSpecs(CORE_TABLES, keys);
    this.name = nameOfDatabase(url, schema);
  }

  async lock(): Promise<void> {
    this.#connections = new Connections(await loadPg(), { ...PostgresDefaults, ...this.#options });
    const { schema } = this.#options;
    await this.#explained(async () => {
      const guard = await this.#connections!.single();
      this.#guard = guard;
      await inspect(guard);
      await guard.query("begin");
      await guard.query("set local idle_in_transaction_session_timeout = 0");
      const values = [Number.parseInt(hashOf(`move: ${schema}`), 16)];
      const { rows } = await guard.query({ text: "select pg_try_advisory_xact_lock($1) as ok", values });
      if (rows[0]!.ok === true) return;
      throw storageError(`Another command is moving ${this.name}`, "Wait until it has ended.");
    }).catch(async (error: unknown) => {
      await this.release();
      throw error;
    });
  }

  async release(): Promise<void> {
    await this.#guard?.end().catch(() => {});
    this.#guard = undefined;
    await this.#connections?.close();
    this.#connections = undefined;
  }

  async state(): Promise<PlaceState> {
    const { schema } = this.#options;
    return this.#use(async (client) => {
      if (!(await isMade(client, schema))) return { kind: "empty" };
      const mark = await readMark(client, schema);
      if (mark !== undefined) return { kind: "closed", mark };
      return { kind: (await contentNames(client, schema)).length === 0 ? "empty" : "open" };
    });
  }

  read<T>(work: (content: Content) => Promise<T>): Promise<T> {
    return this.#use(async (client) => {
      const { schema } = this.#options;
      if (!(await isMade(client, schema))) return work({ parts: [] });
      await beginReading(client);
      return work(await contentOfDatabase(client, schema));
    });
  }

  get contents(): UnstorageStorage {
    const run = (text: string, values: readonly unknown[]) =>
      this.#use((client) => rowsOf(client, text, values));
    const contents = new PostgresContents(identifier(this.#options.schema), run);
    const { schema } = this.#options;
    return Object.assign(contents, {
      // A store of an earlier version, or none, has no contents.
      getKeys: async (base?: string) =>
        (await this.#use((client) => hasAddition(client, schema, CONTENTS)))
          ? PostgresContents.prototype.getKeys.call(contents, base)
          : [],
    });
  }

  prepare(): Promise<void> {
    const { schema } = this.#options;
    const layouts = this.#specs.map((spec) => new TableLayout(spec, schema));
    return this.#use(async (client) => void (await migrate(client, schema, layouts)));
  }

  async setMark(mark: Mark | undefined): Promise<void> {
    const { schema } = this.#options;
    await this.#use(async (client) => {
      await client.query("begin");
      await lockWriters(client, schema);
      if (mark !== undefined) await refuseLiving(client, schema, this.name);
      await setMark(client, schema, mark);
      await client.query("commit");
    });
  }

  async fill(
    content: Content,
    mark: Mark | undefined,
    check: (sums: readonly PartSum[]) => void,
  ): Promise<void> {
    const { schema } = this.#options;
    const layouts = new Map(this.#specs.map((spec) => [spec.name, new TableLayout(spec, schema)]));
    for (const { name, isLog } of content.parts) {
      if (!isLog && !layouts.has(name)) layouts.set(name, plainLayout(name, schema));
    }
    await this.#use(async (client) => {
      await migrate(client, schema, [...layouts.values()]);
      await client.query("begin");
      await client.query("set local statement_timeout = 0");
      await client.query("set local idle_in_transaction_session_timeout = 0");
      await lockWriters(client, schema);
      await refuseLiving(client, schema, this.name);
      const [name] = await contentNames(client, schema);
      if (name !== undefined) {
        throw storageError(`${this.name} is not empty: it has ${name}`, "Use an empty database or schema.");
      }
      await fillDatabase(client, schema, { content, layouts });
      check(await sumsOf(await contentOfDatabase(client, schema)));
      await setMark(client, schema, mark);
      await client.query("commit");
    });
  }

  /** A transaction leaves nothing. */
  async clear(): Promise<void> {}

  /** Runs `work` with a connection of its own, while the lock is held. */
  async #use<T>(work: (client: Client) => Promise<T>): Promise<T> {
    return this.#explained(async () => {
      // The lock ends with its connection.
      await this.#guard!.query("select 1");
      const client = await this.#connections!.single();
      try {
        return await work(client);
      } finally {
        await client.end().catch(() => {});
      }
    });
  }

  async #explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw isOfDatabase(error) ? explain(error) : error;
    }
  }
}

async function rowsOf(client: Client, text: string, values: readonly unknown[]) {
  return (await client.query({ text, values })).rows;
}

/** Where a database is, for people: without password and settings. */
export function nameOfDatabase(url: string, schema: string): string {
  if (!isPostgresUrl(url) || !URL.canParse(url)) {
    // Its value, which has a password, is in no message.
    throw new TypeError("The URL of a Postgres database must begin with postgres:// or postgresql://");
  }
  const { username, host, pathname, searchParams } = new URL(url);
  const at = searchParams.get("host") ?? host;
  return `postgres://${username === "" ? "" : `${username}@`}${at}${pathname}, schema ${schema}`;
}
