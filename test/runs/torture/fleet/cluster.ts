import { execFile, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { chown, mkdir, readdir, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { userInfo } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { Client } from "pg";
import type { CliContext } from "../../../../src/cli/context.ts";
import { CliError } from "../../../../src/cli/errors.ts";

const run = promisify(execFile);

/** Milliseconds that a start may take: it recovers what the last end left. */
const LONGEST_START = 120_000;
/** Where Debian has the programs of the server, beside the folders of PATH. */
const DEBIAN = "/usr/lib/postgresql";
const PROGRAMS = ["initdb", "postgres", "pg_basebackup"];

interface Account {
  readonly uid?: number;
  readonly gid?: number;
}

/** A server that runs. */
interface Server {
  readonly data: string;
  readonly port: number;
  /** Ends it immediately, as `pg_ctl stop -m immediate` does: it recovers at its next start. */
  stop(): Promise<void>;
}

/** A Postgres server of its own, in a folder of its own, that can be stopped and replaced by a standby at any moment. */
export class Cluster {
  readonly #programs: string;
  readonly #folder: string;
  readonly #account: Account;
  /** Where the present primary is, or is about to be. */
  port: number;
  #data: string;
  #standbys = 0;
  #server: Server | undefined;

  private constructor(parts: { programs: string; folder: string; account: Account; port: number }) {
    this.#programs = parts.programs;
    this.#folder = parts.folder;
    this.#account = parts.account;
    this.port = parts.port;
    this.#data = join(parts.folder, "data");
  }

  /** Makes a server with its data in a new folder, and starts it. */
  static async create(folder: string, { PATH }: CliContext["env"]): Promise<Cluster> {
    const programs = await findPrograms(PATH);
    const account = await findAccount();
    await mkdir(folder, { mode: 0o700 });
    if (account.uid !== undefined) await chown(folder, account.uid, account.gid!);
    const data = join(folder, "data");
    const args = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"];
    await run(join(programs, "initdb"), args, { ...account, cwd: folder });
    const cluster = new Cluster({ programs, folder, account, port: await freePort() });
    await cluster.start();
    return cluster;
  }

  url(port = this.port): string {
    return `postgres://postgres@127.0.0.1:${port}/postgres`;
  }

  async start(): Promise<void> {
    this.#server = await this.#run(this.#data, this.port);
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
    this.#server = undefined;
  }

  /**
   * Ends the server as a crash does, and has a standby take its place, which has all that was acknowledged. New connections
   * reach the standby for `blind` milliseconds before it accepts writes.
   */
  async failOver(blind: number): Promise<void> {
    const former = this.#server!;
    const data = join(this.#folder, `data-${++this.#standbys}`);
    const args = ["-h", "127.0.0.1", "-p", String(former.port), "-U", "postgres", "-D", data];
    await run(join(this.#programs, "pg_basebackup"), [...args, "--checkpoint=fast", "-R"], {
      ...this.#account,
      cwd: this.#folder,
    });
    const standby = await this.#run(data, await freePort());
    await query(former.port, "alter system set synchronous_standby_names = '*'", "select pg_reload_conf()");
    const isSynchronous = "select 1 from pg_stat_replication where sync_state = 'sync'";
    while ((await query(former.port, isSynchronous)) === 0) await delay(50);
    await former.stop();
    [this.#server, this.#data, this.port] = [standby, data, standby.port];
    await delay(blind);
    await query(standby.port, "select pg_promote()");
    await rm(former.data, { recursive: true });
  }

  async #run(data: string, port: number): Promise<Server> {
    const settings = [
      ...["listen_addresses=127.0.0.1", `port=${port}`, "max_connections=200"],
      "unix_socket_directories=",
    ];
    const server = [join(this.#programs, "postgres"), "-D", data, ...settings.flatMap((one) => ["-c", one])];
    // The shell waits for the end of its input, which comes also with the end of this process, however that ends.
    const script = '"$@" </dev/null & pid=$!; read -r how; kill -QUIT $pid; wait $pid';
    const shell = spawn("sh", ["-c", script, "sh", ...server], {
      ...this.#account,
      cwd: this.#folder,
      stdio: ["pipe", "ignore", "pipe"],
    });
    const gone = new Promise<void>((resolve) => void shell.once("exit", () => resolve()));
    // On failure it is kept.
    shell.stderr.pipe(createWriteStream(join(this.#folder, "log"), { flags: "a" }));
    let output = "";
    const isReady = new Promise<boolean>((resolve) => {
      shell.stderr.setEncoding("utf8").on("data", (text: string) => {
        output = (output + text).slice(-5000);
        if (/ready to accept (read-only )?connections/.test(output)) resolve(true);
      });
      void gone.then(() => resolve(false));
    });
    const stop = async () => {
      shell.stdin.end();
      await gone;
    };
    if (await Promise.race([isReady, delay(LONGEST_START, false)])) return { data, port, stop };
    throw new CliError("Postgres does not start for the test", { detail: `Its last output:\n${output}` });
  }
}

/** Runs statements; returns the number of rows of the last one. */
async function query(port: number, ...statements: string[]): Promise<number> {
  const client = new Client({ connectionString: `postgres://postgres@127.0.0.1:${port}/postgres` });
  await client.connect();
  try {
    let rows = 0;
    for (const statement of statements) rows = (await client.query(statement)).rows.length;
    return rows;
  } finally {
    await client.end();
  }
}

async function findPrograms(path = ""): Promise<string> {
  const versions = await readdir(DEBIAN).catch(() => []);
  const debian = versions
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => join(DEBIAN, version, "bin"));
  for (const folder of [...path.split(delimiter), ...debian]) {
    const names = await readdir(folder).catch(() => [] as string[]);
    if (PROGRAMS.every((name) => names.includes(name))) return folder;
  }
  throw new CliError("--instances needs a Postgres server of its own, which it can stop", {
    detail: "Install it, for example with: apt-get install postgresql.",
  });
}

/** Postgres refuses to run as root: then it runs as the user that its package made. */
async function findAccount(): Promise<Account> {
  if (userInfo().uid !== 0) return {};
  const id = async (flag: string) => Number((await run("id", [flag, "postgres"])).stdout);
  try {
    return { uid: await id("-u"), gid: await id("-g") };
  } catch {
    throw new CliError("Postgres does not run as root, and there is no user named postgres", {
      detail: "Run this as another user.",
    });
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const { port } = server.address() as { port: number };
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}
