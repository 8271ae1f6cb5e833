import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { Client } from "pg";
import type { StoreFactory } from "../src/core/store/store.ts";
import { postgres } from "../src/postgres.ts";
import { emptySchema } from "./_postgres.ts";

/** Types of messages that end what a client sends before it waits for an answer. */
const [SYNC, QUERY] = [0x53, 0x51];
const TERMINATE = 0x58;
const ROLLBACK = Buffer.from("Q\0\0\0\rrollback\0", "latin1");
/** What an answer ends with where no transaction is open. */
const IDLE = "I".charCodeAt(0);

interface Turn {
  readonly socket: Socket;
  readonly messages: Uint8Array;
}

/**
 * Postgres in this process, reached by a socket as a server is. It has one session: its clients share it as they do
 * behind PgBouncer in transaction mode. What one sends until it waits for an answer stays together, and so does a
 * transaction.
 */
export class PgliteServer {
  readonly #db: PGlite;
  readonly #folder = mkdtempSync("/tmp/svc-pglite-");
  readonly #server: Server;
  #turns: Turn[] = [];
  #isBusy = false;
  /** Who has a transaction open. */
  #holder: Socket | undefined;
  readonly #schemas = new Map<string, string>();
  #count = 0;

  private constructor(db: PGlite) {
    this.#db = db;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  static async start(): Promise<PgliteServer> {
    const server = new PgliteServer(await PGlite.create());
    await new Promise<void>((resolve) =>
      server.#server.listen(join(server.#folder, ".s.PGSQL.5432"), resolve),
    );
    return server;
  }

  /** Opens stores that are empty for each new data folder, and the same for the same one. */
  readonly open: StoreFactory = async (context) => {
    const { dataDir } = context;
    const url = `postgres://postgres@localhost/postgres?host=${encodeURIComponent(this.#folder)}`;
    let schema = this.#schemas.get(dataDir);
    const unused = [...this.#schemas].find(([folder]) => !existsSync(folder));
    if (schema === undefined && unused) {
      this.#schemas.delete(unused[0]);
      schema = unused[1];
      const client = new Client({ connectionString: url });
      await client.connect();
      await emptySchema(async (text) => (await client.query(text)).rows, schema);
      await client.end();
    }
    schema ??= `s${++this.#count}`;
    this.#schemas.set(dataDir, schema);
    return postgres({ url: `${url}&pgbouncer=true`, schema, connections: 2 })(context);
  };

  async close(): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
    await this.#db.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #serve(socket: Socket): void {
    let bytes = Buffer.alloc(0);
    /** Where the next message is. */
    let at = 0;
    let isFirst = true;
    socket.on("data", (data) => {
      bytes = Buffer.concat([bytes, data]);
      for (;;) {
        // The first message has no type.
        const head = isFirst ? 0 : 1;
        if (bytes.length < at + head + 4) return;
        const end = at + head + bytes.readInt32BE(at + head);
        if (bytes.length < end) return;
        const type = bytes[at];
        const isWhole = isFirst || type === SYNC || type === QUERY;
        if (!isFirst && type === TERMINATE) return void socket.end();
        isFirst = false;
        at = end;
        if (!isWhole) continue;
        this.#turns.push({ socket, messages: new Uint8Array(bytes.subarray(0, end)) });
        bytes = bytes.subarray(end);
        at = 0;
        void this.#takeTurns();
      }
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#turns = this.#turns.filter((turn) => turn.socket !== socket);
      if (this.#holder !== socket) return;
      this.#turns.unshift({ socket, messages: ROLLBACK });
      void this.#takeTurns();
    });
  }

  async #takeTurns(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    for (;;) {
      const next = this.#turns.findIndex(
        ({ socket }) => this.#holder === undefined || socket === this.#holder,
      );
      if (next < 0) break;
      const [{ socket, messages }] = this.#turns.splice(next, 1) as [Turn];
      const answer = await this.#db.execProtocolRaw(messages);
      this.#holder = answer.at(-1) === IDLE ? undefined : socket;
      if (!socket.destroyed) socket.write(answer);
      // It is gone: nobody else would end its transaction.
      else if (this.#holder) this.#turns.unshift({ socket, messages: ROLLBACK });
    }
    this.#isBusy = false;
  }
}
