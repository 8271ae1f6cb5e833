import { type NamesOf, refuseUnknown } from "../../base/refuse-unknown.ts";
import { readSwitch } from "../../base/switch.ts";

/** Options of `postgres`. */
export interface PostgresOptions {
  /**
   * Where the database is: `postgres://user:password@host:5432/name`, with `?sslmode=verify-full` for TLS and
   * `?pgbouncer=true` behind PgBouncer in transaction mode. Variable `SERVICE_DATABASE_URL`.
   */
  readonly url: string;
  /** The schema that has the tables; it is made if it is missing. @default "agent_control_service" */
  readonly schema?: string;
  /** Connections for reads. One more writes, one listens, one gives signs of life. @default 5 */
  readonly connections?: number;
  /** Time limit of a statement, milliseconds. @default 15000 */
  readonly statementTimeout?: number;
  /** Time limit of the wait for a lock, milliseconds. @default 5000 */
  readonly lockTimeout?: number;
  /** Time limit for a new connection, milliseconds. @default 5000 */
  readonly connectTimeout?: number;
  /**
   * Whether the statements that are sent most are prepared, which saves the server work: where a pooler in between loses
   * them, they are not, and never behind PgBouncer in transaction mode. @default true
   */
  readonly prepared?: boolean;
}

const NAMES: NamesOf<PostgresOptions> = {
  ...{ url: true, schema: true, connections: true, statementTimeout: true, lockTimeout: true },
  ...{ connectTimeout: true, prepared: true },
};

/** Throws a `TypeError` that names an option of `postgres` that is not known, or a switch that is neither on nor off. */
export function checkPostgresOptions(options: PostgresOptions): void {
  refuseUnknown(options, NAMES, "postgres");
  if (options.prepared !== undefined && typeof options.prepared !== "boolean")
    throw new TypeError("postgres: prepared must be true or false");
  isPooledUrl(options.url);
}

/** Whether a URL is one of a Postgres database. */
export function isPostgresUrl(url: string): boolean {
  return /^postgres(ql)?:\/\//.test(url);
}

/** Whether a URL says that PgBouncer is in between; throws where it says neither yes nor no. */
export function isPooledUrl(url: string): boolean {
  const [, text] = /[?&]pgbouncer=([^&]*)/.exec(url) ?? [];
  const is = text === undefined ? false : readSwitch(text);
  if (is === undefined)
    throw new TypeError('The parameter "pgbouncer" in the URL of a Postgres database must be true or false');
  return is;
}

/**
 * Whether a URL leads to another host without TLS. One that says so itself, and names its host as only a network of one's own
 * does, is as somebody wants it: a database in a container beside the service.
 */
export function isClearText(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { hostname, searchParams } = new URL(url);
  const mode =
    searchParams.get("sslmode") ?? (searchParams.get("ssl") === "true" ? "verify-full" : "disable");
  const host = searchParams.get("host") ?? hostname;
  const isHere = host === "" || host.startsWith("/") || /^(localhost|127\..*|\[?::1\]?)$/.test(host);
  const isBeside = searchParams.get("sslmode") === "disable" && /^[\w-]+(\.postgres)?$/.test(host);
  return mode === "disable" && !isHere && !isBeside;
}

/** What options are where they are not given. */
export const PostgresDefaults = {
  schema: "agent_control_service",
  connections: 5,
  statementTimeout: 15_000,
  lockTimeout: 5000,
  connectTimeout: 5000,
  prepared: true,
};
