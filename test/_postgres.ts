import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { onTestFinished } from "vitest";
import type { Store, StoreFactory } from "../src/core/store/store.ts";
import { CORE_TABLES } from "../src/core/store/tables.ts";
import { type PostgresOptions, postgres } from "../src/postgres.ts";
import { once } from "./_once.ts";
import { findPostgres } from "./_require.ts";

/** A Postgres server refuses to run as root. */
function ordinaryUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = (option: string) => {
    for (const name of ["postgres", "nobody"]) {
      try {
        return Number(
          execFileSync("id", [option, name], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }),
        );
      } catch {}
    }
    throw new Error("There is no user to run Postgres as");
  };
  return { uid: idOf("-u"), gid: idOf("-g") };
}

/** A Postgres server of its own, reached by a Unix socket in its folder. It ends with the process that started it. */
export class Cluster {
  readonly folder: string;
  readonly #bin = findPostgres()!;
  readonly #user = ordinaryUser();
  readonly #settings: readonly string[];
  #server: ChildProcess | undefined;
  #schemas = 0;

  /** Without `isDurable` it does not wait for the disk. */
  constructor({
    isDurable = false,
    settings = [],
  }: { isDurable?: boolean; settings?: readonly string[] } = {}) {
    // The folder of temporary files is closed to other users, and the path of a socket is short.
    this.folder = mkdtempSync("/tmp/svc-pg-");
    if (this.#user) chownSync(this.folder, this.#user.uid, this.#user.gid);
    this.#settings = [
      ...(isDurable ? [] : ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]),
      ...["listen_addresses=", `unix_socket_directories=${this.folder}`, "max_connections=400"],
      ...[
        "shared_buffers=64MB",
        "autovacuum_naptime=10min",
        // In its folder, which is removed also where it is killed.
        "dynamic_shared_memory_type=mmap",
        "shared_preload_libraries=pg_stat_statements",
        "pg_stat_statements.track=all",
        ...settings,
      ],
    ];
  }

  get url(): string {
    return `postgres://svc@localhost/postgres?host=${encodeURIComponent(this.folder)}`;
  }

  /** Makes its data folder, as `start` does where nobody has. */
  async prepare(): Promise<void> {
    const data = join(this.folder, "data");
    if (existsSync(data)) return;
    const made = await once("postgres", (folder) => this.#initialize(folder));
    execFileSync("cp", ["-a", join(made, "data"), data]);
  }

  /** Has it follow another one that runs, as its standby. */
  async follow(primary: Cluster): Promise<void> {
    const args = ["-h", primary.folder, "-U", "svc", "-D", join(this.folder, "data"), "--checkpoint=fast"];
    execFileSync(join(this.#bin, "pg_basebackup"), [...args, "--no-sync", "--write-recovery-conf"], {
      ...this.#user,
      cwd: "/tmp",
      stdio: ["ignore", "ignore", "pipe"],
    });
  }

  async start(): Promise<void> {
    await this.prepare();
    const settings = this.#settings.map((setting) => `-c '${setting}'`).join(" ");
    const server = `'${join(this.#bin, "postgres")}' -D '${this.folder}/data' ${settings}`;
    // The shell waits for the end of its input, which comes with the end of this process, however that ends.
    const script = `${server} </dev/null >>'${this.folder}/log' 2>&1 & pid=$!; echo $pid; read -r how; kill -\${how:-QUIT} $pid; wait $pid; [ -n "$how" ] || rm -rf '${this.folder}'`;
    this.#server = spawn("sh", ["-c", script], {
      ...this.#user,
      cwd: "/tmp",
      stdio: ["pipe", "ignore", "ignore"],
    });
    while (!(await this.#answers())) await delay(20);
  }

  /** `QUIT` ends it as a crash does, `INT` closes all connections, `STOP` and `CONT` are not for this. */
  async stop(signal: "QUIT" | "INT" = "QUIT"): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.stdin!.end(`${signal}\n`);
    await ended;
  }

  async close(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** A schema that nobody has used. */
  newSchema(): string {
    return `s${++this.#schemas}`;
  }

  /** Statements of a user who can do everything. */
  async query<T = Record<string, unknown>>(text: string, url = this.url): Promise<T[]> {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query(text)).rows as T[];
    } finally {
      await client.end();
    }
  }

  /** Once per run: a copy costs a fraction of it. */
  async #initialize(folder: string): Promise<void> {
    if (this.#user) chownSync(folder, this.#user.uid, this.#user.gid);
    const args = ["--no-sync", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-U", "svc"];
    execFileSync(join(this.#bin, "initdb"), [...args, "-D", join(folder, "data")], {
      ...this.#user,
      cwd: folder,
      stdio: ["ignore", "ignore", "pipe"],
    });
  }

  async #answers(): Promise<boolean> {
    return this.query("select 1").then(
      () => true,
      () => false,
    );
  }
}

/** A connection as a store has it, closed after the test. */
export async function openClient(cluster: Cluster): Promise<Client & { release(): void }> {
  const client = new Client({ connectionString: cluster.url });
  await client.connect();
  onTestFinished(() => client.end());
  return Object.assign(client, { release() {} });
}

const SHARED = Symbol.for("svc.test.postgres");
type Shared = { [SHARED]?: Promise<Cluster> };

/** The server that the tests of this process share: started by the first that needs it. */
export function sharedCluster(): Promise<Cluster> {
  const shared = globalThis as Shared;
  shared[SHARED] ??= (async () => {
    const cluster = new Cluster();
    await cluster.start();
    return cluster;
  })();
  return shared[SHARED];
}

const free: string[] = [];

/** An empty schema; those that were given back are used again, which costs much less than new tables. */
export async function borrowSchema(cluster: Cluster): Promise<string> {
  const schema = free.pop();
  if (schema === undefined) return cluster.newSchema();
  await emptySchema((text) => cluster.query(text), schema);
  return schema;
}

/** Removes all that a store has stored in a schema. */
export async function emptySchema(
  query: (text: string) => Promise<{ name: string }[]>,
  schema: string,
): Promise<void> {
  const tables = await query(
    `select quote_ident(tablename) as name from pg_tables where schemaname = '${schema}' and tablename not in ('_migration', '_table', '_writer', '_count')`,
  );
  await query(tables.map(({ name }) => `delete from ${schema}.${name};`).join("\n"));
}

export function giveBackSchema(schema: string): void {
  free.push(schema);
}

const byFolder = new Map<string, string>();

/** Opens stores that are empty for each new data folder, and the same for the same one. */
export const openInSchema: StoreFactory = (context) => openAt(context, ({ url }) => url);

/** The same, by another address than that of the shared server. */
export async function openAt(
  context: Parameters<StoreFactory>[0],
  urlOf: (cluster: Cluster) => string,
): Promise<Store> {
  const cluster = await sharedCluster();
  for (const [folder, old] of byFolder) {
    if (existsSync(folder)) continue;
    byFolder.delete(folder);
    free.push(old);
  }
  let schema = byFolder.get(context.dataDir);
  if (schema === undefined) {
    schema = await borrowSchema(cluster);
    if (context.dataDir !== "") {
      // A service that keeps all in a database makes no folder, and the schema is free once the folder is gone.
      mkdirSync(context.dataDir, { recursive: true });
      byFolder.set(context.dataDir, schema);
    }
  }
  return postgres({ url: urlOf(cluster), schema, connections: 3 })(context);
}

const SILENT = { info() {}, warn() {}, error() {} };

/** An empty store, closed after the test. */
export async function emptyPostgresStore(): Promise<Store> {
  const [store] = await openStores(1, { connections: 2 });
  return store!;
}

/** One empty schema, to be opened by several stores; `close` closes all of them, and gives it back. */
export async function onePostgresStore(): Promise<{ open(): Promise<Store>; close(): Promise<void> }> {
  const { url, schema } = await sharedCluster().then(async (cluster) => ({
    url: cluster.url,
    schema: await borrowSchema(cluster),
  }));
  const factory = postgres({ url, schema, connections: 2 });
  const stores: Store[] = [];
  return {
    open: async () => {
      const store = await factory({ tables: CORE_TABLES, dataDir: "", log: SILENT });
      stores.push(store);
      return store;
    },
    close: async () => {
      await Promise.all(stores.map((store) => store.close()));
      giveBackSchema(schema);
    },
  };
}

/** Stores on one empty schema, as several processes have them open; closed after the test. */
export async function openStores(
  count: number,
  options: Partial<PostgresOptions> & { cluster?: Cluster } = {},
): Promise<Store[]> {
  const { cluster = await sharedCluster(), ...others } = options;
  const schema = others.schema ?? (await borrowSchema(cluster));
  const open = postgres({ url: cluster.url, schema, connections: 3, ...others });
  const stores: Store[] = [];
  onTestFinished(async () => {
    await Promise.all(stores.map((store) => store.close()));
    if (options.cluster === undefined && options.schema === undefined) giveBackSchema(schema);
  });
  while (stores.length < count) stores.push(await open({ tables: CORE_TABLES, dataDir: "", log: SILENT }));
  return stores;
}
