import { setTimeout as delay } from "node:timers/promises";
import type { ServerOptions } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { onTestFinished } from "vitest";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import type { Store, StoreFactory } from "../../src/core/store/store.ts";
import { postgres } from "../../src/postgres.ts";
import { borrowSchema, sharedCluster } from "../_postgres.ts";
import { greeter } from "../_setup.ts";

/**
 * A store in memory that several services have at the same time; none of them closes it. With
 * `SVC_TEST_STORE=postgres` a schema in a database that each of them opens by itself.
 */
export class SharedStore {
  #store: Promise<Store> | undefined;
  #schema: Promise<string> | undefined;
  readonly #hints: Partial<Store>;
  /** Milliseconds that the store's clock is ahead. */
  ahead = 0;
  /** Milliseconds that a transaction takes to get there, as over a network. */
  latency: number;

  /** Without `hints` all of them get lost. */
  constructor({ latency = 0, hints = true } = {}) {
    this.latency = latency;
    this.#hints = hints ? {} : { hints: { tell() {}, on: () => () => {} } };
  }

  readonly open: StoreFactory = async (context) => {
    const isInDatabase = process.env.SVC_TEST_STORE === "postgres";
    if (!isInDatabase) this.#store ??= createMemoryStore(context);
    const store = await (this.#store ?? this.#connect(context));
    const members: Partial<Store> = {
      isShared: true,
      ...this.#hints,
      now: async () => new Date((await store.now()).getTime() + this.ahead),
      ...(!isInDatabase && { close: async () => {} }),
      transaction: async (...args: Parameters<Store["transaction"]>) => {
        if (this.latency > 0) await delay(this.latency);
        return store.transaction(...args) as never;
      },
    };
    return new Proxy(store, {
      get(_, name) {
        if (Object.hasOwn(members, name)) return members[name as keyof Store];
        const member: unknown = Reflect.get(store, name, store);
        return typeof member === "function" ? member.bind(store) : member;
      },
    });
  };

  async #connect(context: Parameters<StoreFactory>[0]): Promise<Store> {
    const cluster = await sharedCluster();
    this.#schema ??= borrowSchema(cluster);
    return postgres({ url: cluster.url, schema: await this.#schema, connections: 3 })(context);
  }
}

/** Services over one store, each as if it were a process of its own; closed when the test ends. */
export async function startInstances<const Each extends readonly Partial<ServerOptions>[]>(
  each: Each,
  store = new SharedStore(),
): Promise<{ [K in keyof Each]: TestServer }> {
  const servers: TestServer[] = [];
  for (const options of each) {
    const server = await testServer({ agents: [greeter], store: store.open, ...options });
    onTestFinished(() => server[Symbol.asyncDispose]());
    servers.push(server);
  }
  return servers as { [K in keyof Each]: TestServer };
}
