import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer as createProxy, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, type ServerOptions, type Service } from "agent-control-service";
import { onTestFinished } from "vitest";
import { type PostgresOptions, postgres } from "../../src/postgres.ts";
import { sharedRsaKey } from "../../src/testing/rsa-key.ts";
import type { Cluster } from "../_postgres.ts";

/** The name of a database on a network: it can be cut off, and point at another server from then on. */
export class DatabaseName {
  readonly #sockets = new Set<Socket>();
  #folder: string;
  #server: Server | undefined;
  #port = 0;

  private constructor({ folder }: Pick<Cluster, "folder">) {
    this.#folder = folder;
  }

  static async of(cluster: Pick<Cluster, "folder">): Promise<DatabaseName> {
    const name = new DatabaseName(cluster);
    await name.restore();
    onTestFinished(() => name.cut());
    return name;
  }

  get url(): string {
    return `postgres://svc@127.0.0.1:${this.#port}/postgres`;
  }

  /** For new connections. */
  pointAt({ folder }: Pick<Cluster, "folder">): void {
    this.#folder = folder;
  }

  /** Breaks the connections, as a server that ends does. */
  break(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Breaks the connections, and accepts none until `restore`. */
  async cut(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = new Promise((resolve) => server.close(resolve));
    this.break();
    await closed;
  }

  async restore(): Promise<void> {
    if (this.#server !== undefined) return;
    const server = createProxy((client) => {
      const upstream = connect(join(this.#folder, ".s.PGSQL.5432"));
      for (const [socket, other] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        this.#sockets.add(socket);
        socket.on("error", () => {});
        socket.on("data", (data) => other.write(data));
        socket.on("close", () => {
          this.#sockets.delete(socket);
          other.destroy();
        });
      }
    });
    await new Promise<void>((resolve) => server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }
}

interface Started {
  readonly service: Service;
  readonly url: string;
  /** Its log, a line an entry. */
  readonly logs: readonly string[];
}

/** A key that all instances have. */
export const API_KEY = "the-key-of-all-these-instances";

/** A service on a database as its process has it; closed when the test ends. */
export async function startOnDatabase(
  database: PostgresOptions,
  options: Partial<ServerOptions> & Pick<ServerOptions, "agents">,
): Promise<Started> {
  const dataDir = await mkdtemp(join(tmpdir(), "on-database-"));
  const logs: string[] = [];
  const service = createServer({
    ...{ apiKey: API_KEY, rsaPrivateKey: sharedRsaKey(), dataDir, port: 0, admin: false },
    ...{ store: postgres(database), logTo: (line: string) => void logs.push(line) },
    ...options,
  });
  onTestFinished(async () => {
    await service.close();
    await rm(dataDir, { recursive: true });
  });
  await service.listen();
  return { service, url: service.url!, logs };
}
