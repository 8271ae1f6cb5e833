import { generateKeyPairSync, randomBytes } from "node:crypto";
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { CliContext } from "../../../../src/cli/context.ts";
import { CliError } from "../../../../src/cli/errors.ts";
import { ServiceClient } from "../../../../src/cli/job/service-client.ts";
import { type Program, ServiceProcess } from "../../../../src/cli/torture/service-process.ts";
import type { StrikeOptions, Subject } from "../../../../src/cli/torture/subject.ts";
import { Balancer } from "./balancer.ts";
import { Cluster } from "./cluster.ts";
import { Relay } from "./relay.ts";

/** Milliseconds after which an instance counts as dead, unless `SVC_LEASE` says otherwise. */
const LEASE = 15_000;
/** Milliseconds that a request is tried again while no instance answers, and nothing is being done to any of them. */
const PATIENCE = 180_000;
/** Longest time that an instance may take to end after SIGTERM, milliseconds: on a busy machine it is mostly waiting. */
const LONGEST_END = 300_000;

interface FleetOptions {
  readonly program: Program;
  /** Everything is in it: the folders of the instances, what they log, and the data of the database. */
  readonly folder: string;
  readonly context: CliContext;
  readonly instances: number;
}

interface Instance {
  readonly name: string;
  readonly service: ServiceProcess;
  readonly relay: Relay;
  /** Where it gets requests; undefined while it is down. */
  url: string | undefined;
  /** Something that is being done to it. */
  busy: Promise<void> | undefined;
}

/** What is done to one instance, to the database, and to all instances in turn. */
const OF_INSTANCE = ["kill", "freeze", "cut", "silence", "blip", "hand-over"] as const;
const OF_DATABASE = ["database", "failover"] as const;
const STRIKES = [...OF_INSTANCE, ...OF_DATABASE, "deploy"] as const;
type Strike = (typeof STRIKES)[number];

/** Several instances of a service on one Postgres, behind a proxy: they are killed, frozen and cut off at random. */
export class Fleet implements Subject {
  readonly strikes = Object.fromEntries(STRIKES.map((kind) => [kind, 0])) as Record<Strike, number>;
  readonly #program: Program;
  readonly #cluster: Cluster;
  readonly #instances: readonly Instance[];
  readonly #balancer: Balancer;
  readonly #key: string;
  readonly #lease: number;
  readonly #over = new AbortController();
  #deploying: Promise<void> | undefined;
  /** When the database was last started again, by a clock that nobody sets; infinite while it is away. */
  #databaseUpAt = Number.NEGATIVE_INFINITY;
  /** What has failed in the background. */
  #failure: Error | undefined;

  private constructor(parts: {
    program: Program;
    cluster: Cluster;
    instances: readonly Instance[];
    balancer: Balancer;
    key: string;
    lease: number;
  }) {
    this.#program = parts.program;
    this.#cluster = parts.cluster;
    this.#instances = parts.instances;
    this.#balancer = parts.balancer;
    this.#key = parts.key;
    this.#lease = parts.lease;
  }

  static async create({ program, folder, context, instances: count }: FleetOptions): Promise<Fleet> {
    // The server may run as another user.
    await chmod(folder, 0o711);
    const cluster = await Cluster.create(join(folder, "postgres"), context.env);
    const key = randomBytes(24).toString("base64url");
    const { privateKey } = generateKeyPairSync("rsa", {
      modulusLength: 2048,
      publicKeyEncoding: { type: "spki", format: "pem" },
      privateKeyEncoding: { type: "pkcs8", format: "pem" },
    });
    const instances: Instance[] = [];
    for (let n = 1; n <= count; n++) {
      const relay = await Relay.listen({
        host: "127.0.0.1",
        get port() {
          return cluster.port;
        },
      });
      const name = `instance-${n}`;
      const dataDir = join(folder, name);
      await mkdir(dataDir);
      const env = { SERVICE_DATABASE_URL: cluster.url(relay.port), SERVICE_RSA_PRIVATE_KEY: privateKey };
      const service = new ServiceProcess({ program, name, dataDir, context, env, key });
      instances.push({ name, service, relay, url: undefined, busy: undefined });
    }
    const balancer = await Balancer.listen(() =>
      instances.flatMap((one) =>
        one.url === undefined ? [] : { url: one.url, isStruck: () => one.busy !== undefined },
      ),
    );
    const lease = Number(context.env.SVC_LEASE ?? LEASE);
    return new Fleet({ program, cluster, instances, balancer, key, lease });
  }

  async start(): Promise<ServiceClient> {
    for (const instance of this.#instances) await this.#up(instance);
    return this.#client();
  }

  async restart(): Promise<ServiceClient> {
    await this.#rest();
    for (const instance of this.#instances) await this.#handOver(instance);
    return this.#client();
  }

  async strike({ random, deploy }: StrikeOptions): ReturnType<Subject["strike"]> {
    const free = this.#instances.filter(({ busy }) => busy === undefined);
    const instance = free[Math.floor(random() * free.length)];
    const strike = STRIKES[Math.floor(random() * STRIKES.length)]!;
    const isOfDatabase = OF_DATABASE.some((kind) => kind === strike);
    const needsOthers = !isOfDatabase && strike !== "deploy";
    // One is always left, so that the service as a whole continues.
    if (!instance || (needsOthers && free.length < 2) || (strike === "deploy" && this.#deploying)) {
      await Promise.race([delay(this.#lease / 5), ...this.#instances.flatMap(({ busy }) => busy ?? [])]);
      return { client: this.#client(), kills: 0 };
    }
    this.strikes[strike]++;
    if (strike === "deploy") {
      deploy();
      this.#deploying = this.#inBackground(this.#handOverAll()).finally(() => {
        this.#deploying = undefined;
      });
    } else {
      const work = this.#carryOut(strike, instance, random);
      if (isOfDatabase) await work;
      // The next rounds come meanwhile.
      else
        instance.busy = this.#inBackground(work).finally(() => {
          instance.busy = undefined;
        });
    }
    this.#check();
    return { client: this.#client(), kills: strike === "kill" ? 1 : 0 };
  }

  async rest(): Promise<void> {
    await this.#rest();
    this.#check();
  }

  async kill(): Promise<void> {
    this.#over.abort();
    await Promise.all(this.#instances.map(({ service }) => service.end()));
    await this.#rest();
    for (const { relay } of this.#instances) await relay.close();
    await this.#balancer.close();
    await this.#cluster.stop();
  }

  #client(): ServiceClient {
    const fetch = patient(() => this.#isCalm);
    return new ServiceClient({ url: this.#balancer.url, key: this.#key, fetch });
  }

  /** Whether all instances and the database have started, and nothing is being done to them. */
  get #isCalm(): boolean {
    if (this.#failure || this.#over.signal.aborted) return true;
    if (this.#deploying || this.#databaseUpAt > performance.now()) return false;
    return this.#instances.every(({ url, busy }) => url !== undefined && busy === undefined);
  }

  async #rest(): Promise<void> {
    await Promise.all([this.#deploying, ...this.#instances.map(({ busy }) => busy)]);
  }

  async #carryOut(
    strike: Exclude<Strike, "deploy">,
    instance: Instance,
    random: () => number,
  ): Promise<void> {
    const { name, service, relay } = instance;
    switch (strike) {
      case "kill":
        instance.url = undefined;
        this.#program.ended?.(name, "kill");
        await service.kill();
        await this.#up(instance);
        return;
      case "freeze":
        service.signal("SIGSTOP");
        await this.#pause(2 * this.#lease);
        service.signal("SIGCONT");
        return;
      case "cut":
      case "silence":
        relay.cut(strike === "cut" ? "closed" : "silent");
        await this.#pause(this.#lease * (0.5 + random()));
        relay.restore();
        return;
      case "blip":
        relay.cut("closed");
        await this.#pause(1000 + 3000 * random());
        relay.restore();
        return;
      case "failover":
        this.#databaseUpAt = Number.POSITIVE_INFINITY;
        await this.#cluster.failOver(1000 * random());
        this.#databaseUpAt = performance.now();
        return;
      case "database":
        this.#databaseUpAt = Number.POSITIVE_INFINITY;
        await this.#cluster.stop();
        await this.#pause(random() * 1000);
        await this.#cluster.start();
        this.#databaseUpAt = performance.now();
        return;
      case "hand-over":
        await this.#handOver(instance);
        return;
    }
  }

  /** A rolling deploy: each instance is replaced by one with the present code. */
  async #handOverAll(): Promise<void> {
    for (const instance of this.#instances) {
      while (instance.busy) await instance.busy;
      if (this.#over.signal.aborted) return;
      instance.busy = this.#handOver(instance).finally(() => {
        instance.busy = undefined;
      });
      await instance.busy;
    }
  }

  async #handOver(instance: Instance): Promise<void> {
    const { name, service } = instance;
    this.#program.ended?.(name, "hand-over");
    service.signal("SIGTERM");
    const hasEnded = await Promise.race([
      service.ended().then(() => true),
      delay(LONGEST_END, false, { ref: false }),
    ]);
    instance.url = undefined;
    if (!hasEnded)
      throw new CliError(`The service does not end after SIGTERM`, {
        detail: `Its last output:\n${service.output.slice(-2000)}`,
      });
    if (!this.#over.signal.aborted) await this.#up(instance);
  }

  async #up(instance: Instance): Promise<void> {
    for (;;) {
      const begun = performance.now();
      try {
        instance.url = (await instance.service.start()).url;
        return;
      } catch (error) {
        // Without a database none starts: what supervises instances tries again.
        if (this.#over.signal.aborted || this.#databaseUpAt < begun) throw error;
      }
    }
  }

  /** No instance may end by itself. */
  #check(): void {
    if (this.#failure) throw this.#failure;
    for (const { name, service, url } of this.#instances) {
      if (url === undefined || service.isUp) continue;
      throw new CliError(`${name} has ended by itself`, {
        detail: `Its last output:\n${service.output.slice(-2000)}`,
      });
    }
  }

  async #pause(milliseconds: number): Promise<void> {
    await delay(milliseconds, undefined, { signal: this.#over.signal }).catch(() => {});
  }

  #inBackground(work: Promise<void>): Promise<void> {
    return work.catch((error: Error) => {
      if (!this.#over.signal.aborted) this.#failure ??= error;
    });
  }
}

/**
 * Tries again while no instance answers: a client of a service behind a proxy does the same. Its time limit counts from
 * the moment at which nothing is being done to the service: a strike and a start take as long as the machine needs.
 */
function patient(isCalm: () => boolean): typeof globalThis.fetch {
  return async (input, init) => {
    for (let until = performance.now() + PATIENCE; ; await delay(100)) {
      if (!isCalm()) until = performance.now() + PATIENCE;
      const isLate = performance.now() > until;
      try {
        const response = await globalThis.fetch(input, init);
        if (response.status !== 503 || isLate) return response;
        await response.body?.cancel();
      } catch (error) {
        if (isLate) throw error;
      }
    }
  };
}
