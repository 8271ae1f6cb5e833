import { createRequire } from "node:module";
import { OptionsError } from "../../base/check-options.ts";
import { isServiceError, type ServiceError } from "../../base/errors.ts";
import { getOrMake } from "../../base/get-or-make.ts";
import { isNotInstalled, optionalPackage } from "../../base/optional-package.ts";
import { storageError } from "../storage-error.ts";
import { isPooledUrl, type PostgresOptions } from "./postgres-options.ts";
import { hashOf } from "./sql-text.ts";

export interface Result {
  readonly rows: Record<string, unknown>[];
}

/** What is used of a client of `pg`. */
export interface Client {
  query(query: string | { text: string; values?: readonly unknown[]; name?: string }): Promise<Result>;
  connect(): Promise<unknown>;
  end(): Promise<void>;
  release(destroy?: boolean): void;
  /** Whether it sends a statement before the one before it is answered; missing in earlier versions. */
  readonly pipeline?: boolean;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  on(event: "notification", listener: (message: { payload?: string }) => void): unknown;
}

interface Pool {
  connect(): Promise<Client>;
  end(): Promise<void>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "connect", listener: (client: Client) => void): unknown;
}

interface Pg {
  readonly Client: new (config: Config) => Client;
  readonly Pool: new (config: Config) => Pool;
}

type Config = Readonly<Record<string, unknown>>;

/** What the server said about a statement that it refused. */
interface ServerError extends Error {
  readonly severity?: string;
  readonly code?: string;
  readonly detail?: string;
}

/** The code with which a database refuses writes whose data a move has taken elsewhere. */
export const CLOSED = "SV003";

/** The server accepts no write. */
const READ_ONLY = "25006";

/** A prepared statement does not exist, or exists although this connection has not made it. */
const UNPREPARED = ["26000", "42P05"];

/** Each version writes with a function of its own, which a later one may have removed. */
const UNDEFINED_FUNCTION = "42883";

/** Connections to one database. */
export class Connections {
  readonly #pg: Pg;
  readonly #options: Required<PostgresOptions>;
  #readers: Pool | undefined;
  #writers: Pool | undefined;
  #lives: Pool | undefined;
  /** The connection that writes are under way on. */
  #writing: Shared | undefined;
  /** Whether a statement that writes may be sent before the one before it is answered. */
  writesFollow = false;
  /** Grows when a server turns out to be read-only: connections to it are replaced, as its name may have moved. */
  #server = 0;
  /** The number of the server of each connection. */
  readonly #servers = new WeakMap<Client, number>();
  /** Names of prepared statements, by their text. */
  readonly #names = new Map<string, string>();
  /** Whether statements that are sent again and again are prepared. */
  #prepares: boolean;
  /** Whether PgBouncer is in between, whose connections keep nothing from one transaction to the next. */
  isPooled: boolean;
  /** Called when connections are replaced, as the server has become read-only. */
  onReplaced: () => void = () => {};
  /** Called when prepared statements turn out to get lost. */
  onUnprepared: () => void = () => {};

  constructor(pg: Pg, options: Required<PostgresOptions>) {
    this.#pg = pg;
    this.#options = options;
    this.isPooled = isPooledUrl(options.url);
    this.#prepares = options.prepared && !this.isPooled;
  }

  /** Runs a read; once more where the connection turns out to be lost. One that is `steady` is sent again and again. */
  async read(
    text: string,
    values: readonly unknown[] = [],
    { steady = false } = {},
  ): Promise<Result["rows"]> {
    this.#readers ??= this.#open(this.#options.connections);
    for (let isFirst = true; ; isFirst = false) {
      let isSent = false;
      try {
        return await this.#use(this.#readers, (client) => {
          isSent = true;
          return this.#query(client, text, values, steady);
        });
      } catch (error) {
        if (!isFirst || !isSent || isRefusal(error)) throw error;
      }
    }
  }

  /**
   * Runs a statement that writes on the connection for writes, after those that were sent before. `onSend` is called
   * before it is sent.
   */
  async write(
    text: string,
    values: readonly unknown[],
    onSend: () => void = () => {},
  ): Promise<Result["rows"]> {
    const shared = this.#share();
    shared.uses++;
    try {
      const client = await shared.client;
      onSend();
      return await this.#query(client, text, values, true);
    } catch (error) {
      this.#note(error);
      shared.isLost ||= isLoss(error);
      throw error;
    } finally {
      if (--shared.uses === 0) {
        if (this.#writing === shared) this.#writing = undefined;
        await shared.client.then(
          (client) => client.release(shared.isLost),
          () => {},
        );
      }
    }
  }

  #share(): Shared {
    const { client: known, isLost } = this.#writing ?? {};
    if (known === undefined || isLost || !this.writesFollow) {
      const client = this.#connect(this.#openWriters());
      this.#writing = { client, uses: 0, isLost: false };
      client.then(
        ({ pipeline }) => {
          this.writesFollow = pipeline === true && !this.isPooled;
        },
        () => {},
      );
    }
    return this.#writing!;
  }

  #openWriters(): Pool {
    this.#writers ??= this.#open(1, limitsOf(this.#options), true);
    return this.#writers;
  }

  /** Runs a sign of life on the connection for those, which waits for nothing longer than `limit` milliseconds. */
  async beat(text: string, values: readonly unknown[], limit: number): Promise<void> {
    this.#lives ??= this.#open(1, { statement: limit, answer: limit, lock: limit, connect: limit });
    await this.#use(this.#lives, (client) => this.#query(client, text, values, true));
  }

  /** Runs a statement that writes, and takes back what it has written. */
  async rehearse(text: string, values: readonly unknown[]): Promise<Result["rows"]> {
    return this.#use(this.#openWriters(), async (client) => {
      await client.query("begin");
      try {
        return await this.#query(client, text, values, true);
      } finally {
        await client.query("rollback");
      }
    });
  }

  /** Statements that are sent again and again are prepared: the server parses and plans them once for a connection. */
  async #query(
    client: Client,
    text: string,
    values: readonly unknown[],
    steady: boolean,
  ): Promise<Result["rows"]> {
    if (steady && this.#prepares) {
      try {
        return (await client.query({ text, values, name: this.#nameOf(text) })).rows;
      } catch (error) {
        if (!UNPREPARED.includes((error as ServerError).code ?? "")) throw error;
        // Nothing of it was done. Something in between gives each transaction another connection to the server.
        if (this.#prepares) this.onUnprepared();
        this.#prepares = false;
      }
    }
    return (await client.query({ text, values })).rows;
  }

  /** One name means one text, also where several processes share a connection to the server. */
  #nameOf(text: string): string {
    return getOrMake(this.#names, text, () => `svc_${hashOf(text)}`);
  }

  /** A connection of its own, without a time limit on statements. */
  async single(): Promise<Client> {
    const client = new this.#pg.Client(this.#config());
    client.on("error", () => {});
    await client.connect();
    return client;
  }

  /** The same, to a server that accepts writes. */
  async primary(): Promise<Client> {
    const client = await this.single();
    try {
      await refuseStandby(client);
      return client;
    } catch (error) {
      await client.end().catch(() => {});
      throw error;
    }
  }

  async #use<T>(pool: Pool, work: (client: Client) => Promise<T>): Promise<T> {
    const client = await this.#connect(pool);
    try {
      const result = await work(client);
      client.release();
      return result;
    } catch (error) {
      this.#note(error);
      client.release(isLoss(error));
      throw error;
    }
  }

  #note(error: unknown): void {
    if (!isReadOnly(error)) return;
    this.#server++;
    this.onReplaced();
  }

  /** A connection to a server that accepts writes, as far as is known. */
  async #connect(pool: Pool): Promise<Client> {
    for (;;) {
      const client = await pool.connect();
      const server = this.#servers.get(client);
      if (server === this.#server) return client;
      if (server === undefined) {
        try {
          await refuseStandby(client, !this.isPooled);
          this.#servers.set(client, this.#server);
          return client;
        } catch (error) {
          client.release(true);
          throw error;
        }
      }
      client.release(true);
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#readers?.end(), this.#writers?.end(), this.#lives?.end()]);
  }

  #open(max: number, limits: Limits = limitsOf(this.#options), pipeline = false): Pool {
    const pool = new this.#pg.Pool({ ...this.#config(limits), max, pipeline });
    // One that is lost while it is idle is replaced by the next use; while it is in use, its query fails.
    pool.on("error", () => {});
    pool.on("connect", (client) => void client.on("error", () => {}));
    return pool;
  }

  #config(limits?: Limits): Config {
    const { url, connectTimeout } = this.#options;
    return {
      connectionString: toPgUrl(url),
      application_name: "agent-control-service",
      connectionTimeoutMillis: limits?.connect ?? connectTimeout,
      keepAlive: true,
      idleTimeoutMillis: 30_000,
      ...(limits && {
        query_timeout: limits.answer,
        ...(!this.isPooled && { statement_timeout: limits.statement, lock_timeout: limits.lock }),
      }),
    };
  }
}

/** A connection on which statements are under way. */
interface Shared {
  readonly client: Promise<Client>;
  /** Their number. */
  uses: number;
  /** Whether no other statement is to be sent on it. */
  isLost: boolean;
}

/** Whether a connection is of no use after an error: a session keeps the settings and the server that it began with, which may be the reason. */
function isLoss(error: unknown): boolean {
  return !isRefusal(error) || isServerRefusal(error);
}

/** Time limits of a connection, milliseconds. */
interface Limits {
  readonly statement: number;
  /** Of the wait for the server's answer to a statement. */
  readonly answer: number;
  readonly lock: number;
  readonly connect: number;
}

function limitsOf({ statementTimeout, lockTimeout, connectTimeout }: Required<PostgresOptions>): Limits {
  // Longer than the limit of the server, whose answer says more.
  const answer = statementTimeout + 5000;
  return { statement: statementTimeout, answer, lock: lockTimeout, connect: connectTimeout };
}

/**
 * The URL for `pg`, which would print a warning of six lines about modes of TLS that it treats as `verify-full` anyway.
 */
function toPgUrl(url: string): string {
  const own = url.replace(/([?&])pgbouncer=[^&]*&?/, "$1").replace(/[?&]$/, "");
  if (/[?&]uselibpqcompat=true/.test(own)) return own;
  return own.replace(/([?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, "$1verify-full");
}

/**
 * A server that only follows another one may never again hear of what that one stores. `isOwn` has the server interpret all
 * statements of the connection: to compile one that joins many reads takes seconds, and to run it milliseconds.
 */
async function refuseStandby(client: Client, isOwn = false): Promise<void> {
  const interpret = isOwn ? ", set_config('jit', 'off', false)" : "";
  const { rows } = await client.query(`select pg_is_in_recovery() as standby${interpret}`);
  if (rows[0]!.standby === true)
    throw Object.assign(new Error("the server is a standby, or is still recovering"), { code: READ_ONLY });
}

/** Loads `pg`, which only those have who use this store. */
export async function loadPg(): Promise<Pg> {
  return optionalPackage(
    async () => {
      const { default: pg } = (await import("pg")) as unknown as { default: Pg };
      // Where two import it in the same moment, Node 20 gives one of them an object without its exports.
      return pg.Client ? pg : (createRequire(import.meta.url)("pg") as Pg);
    },
    () => new OptionsError(isNotInstalled("The store on Postgres", "pg", 8)),
  );
}

/** Whether the server has refused a statement, and so has done nothing of it. */
export function isRefusal(error: unknown): error is ServerError {
  return (error as ServerError).severity === "ERROR";
}

/** Whether the same statement may succeed if it is sent again: deadlock, serialization failure, lock or time limit. */
export function isTransient(error: unknown): boolean {
  return isRefusal(error) && ["40001", "40P01", "55P03", "57014"].includes(error.code ?? "");
}

/** Errors of values, constraints, limits of a value, and what a trigger raises, by the first characters of their code. */
const CONTENT = ["21", "22", "23", "44", "54", "P0"];

/** Whether the server has refused a statement for a reason of its own, which lasts, and not for what is in it. */
export function isServerRefusal(error: unknown): boolean {
  return isRefusal(error) && !isTransient(error) && !CONTENT.includes(error.code?.slice(0, 2) ?? "");
}

function isReadOnly(error: unknown): boolean {
  return (error as ServerError).code === READ_ONLY;
}

/** What to do about a refusal, where its code says so. */
const REPAIRS: Readonly<Record<string, string>> = {
  [READ_ONLY]:
    "The database is read-only: it is a standby, or default_transaction_read_only is on. Connect to the primary, or turn the setting off.",
  "42501":
    "The user of the service lacks a right. To make its schema, it needs: grant create on database … to …. Where the schema exists: grant usage, create on schema … to …, and all rights on its tables; or make the user its owner.",
  "57014":
    "A time limit of the role or the database ended it (statement_timeout): alter role … set statement_timeout = 0.",
  "53100": "The disk of the database is full: make room there.",
};

/** What to do where no connection comes about, by the code and the message. */
const CONNECTING: readonly { readonly matches: RegExp; readonly repair: string }[] = [
  {
    matches: /unsupported startup parameter/,
    repair:
      "PgBouncer is in between: add ?pgbouncer=true to the URL (&pgbouncer=true after other parameters).",
  },
  {
    matches:
      /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT\w*) /,
    repair:
      "Its certificate is signed by an authority that is not known here, such as the provider's own. Get the provider's CA certificate, and add sslrootcert=/path/to/ca.pem to the URL, or set NODE_EXTRA_CA_CERTS to that path.",
  },
  {
    matches: /^(ERR_TLS_CERT_ALTNAME_INVALID|CERT_HAS_EXPIRED) /,
    repair:
      "Its certificate is not valid for the host in the URL: use the name that the provider gives, and check the date of the certificate.",
  },
  {
    matches: /does not support SSL/,
    repair: "The server has no TLS: turn it on there, or remove sslmode from the URL.",
  },
  {
    matches: /^(28\w{3}) /,
    repair: "Check the user and the password in the URL, and pg_hba.conf of the server.",
  },
  { matches: /^3D000 /, repair: "Create the database, or correct its name at the end of the URL." },
  {
    matches: /^53300 /,
    repair:
      "All connections of the server are in use: raise max_connections, give instances fewer (option connections), or put PgBouncer in between.",
  },
];

/** Whether a server is there and only not ready, or is about to be there. */
export function isStarting(error: unknown): boolean {
  const { code, errors } = error as ServerError & { errors?: readonly ServerError[] };
  return ["57P03", "ECONNREFUSED", "EAI_AGAIN"].includes(code ?? errors?.[0]?.code ?? "");
}

/** Whether an error is of the database or of the connection: `pg` gives the latter a code of the system, or none. */
export function isOfDatabase(error: unknown): boolean {
  const { code, path, severity, message } = error as Partial<Record<string, string>>;
  return (
    severity !== undefined || (code !== undefined && path === undefined) || /^Connection /.test(message ?? "")
  );
}

/** The error for callers. What `pg` says has no password in it; its causes are not passed on, as they may. */
export function explain(error: unknown): ServiceError {
  if (isServiceError(error)) return error;
  const { code, message } = error as ServerError;
  if (isRefusal(error) || isReadOnly(error)) {
    if (code === CLOSED) return storageError(message, (error as ServerError).detail ?? "");
    if (code === UNDEFINED_FUNCTION) {
      return storageError(
        `The database was changed by a newer version of agent-control-service, beside which this one cannot write (${message})`,
        "Start this instance with the newer version.",
      );
    }
    return storageError(
      `The database refuses: ${message} (${code})`,
      REPAIRS[code ?? ""] ?? "See the log of the database.",
    );
  }
  const repair = CONNECTING.find(({ matches }) => matches.test(`${code} ${message}`))?.repair;
  if (repair !== undefined)
    return storageError(`The database cannot be connected to: ${reasonOf(error)}`, repair);
  return storageError(
    `The database does not answer: ${reasonOf(error)}`,
    "Nothing was changed. A service that runs continues by itself when the database answers; one that starts needs it: check the URL, and that the database can be reached from here.",
  );
}

function reasonOf(error: unknown): string {
  // Connecting to several addresses fails with all their errors, and no message.
  const { code, message, errors } = error as ServerError & { errors?: readonly Error[] };
  return message || errors?.[0]?.message || code || "connection failed";
}
