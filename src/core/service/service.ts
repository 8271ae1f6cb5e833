import type { H3 } from "h3";
import type { Container, Token } from "../base/container.ts";
import { ServiceError } from "../base/errors.ts";
import { noteTime } from "../base/note-time.ts";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import { WallTimers } from "../base/wall-timers.ts";
import type { CoreHooks } from "../entities/hooks.ts";
import { hearOthers } from "../entities/touched.ts";
import { explainListenError } from "../http/listen-error.ts";
import { type HttpServer, type Serve, serveWithNode } from "../http/serve.ts";
import { VERSION } from "../http/service-state.ts";
import { answerInStandby } from "../http/standby-answer.ts";
import { assertAllKeptApart } from "../runs/isolation/kept-apart.ts";
import { resolveSchedules } from "../runs/schedules/define-schedule.ts";
import type { Backups } from "../store/backup/backups.ts";
import type { Standby } from "../store/bucket/standby.ts";
import { NO_KEYS } from "../store/encryption/keyring.ts";
import { sealStore } from "../store/encryption/sealed-store.ts";
import type { StoreFactory } from "../store/store.ts";
import { CORE_TABLES } from "../store/tables.ts";
import { createApp } from "./app.ts";
import type { ResolvedBackup } from "./backup-options.ts";
import { checkPlugins } from "./check-plugins.ts";
import { createScope, ownFile } from "./create-scope.ts";
import { explainDataFolderError } from "./data-folder-error.ts";
import { EMITTER, FILE_SWEEP, LEDGER, SCHEDULES } from "./inner-tokens.ts";
import { noteKeyChanges, renewEnvelopes } from "./key-changes.ts";
import { loadKeys, requireLastingKeys } from "./keys.ts";
import { leaveLifeSigns } from "./life-sign.ts";
import type { ResolvedOptions } from "./options.ts";
import { orderPlugins, type Plugin } from "./plugin.ts";
import type { ServiceOptions } from "./service-options.ts";
import { type PluginReport, setUpPlugins } from "./set-up-plugins.ts";
import { claimStore, refuseOther } from "./store-owner.ts";
import {
  ACCESS,
  AGENTS,
  BACKUPS,
  BUDGETS,
  CLOCK,
  FILES,
  HOOKS,
  KEYS,
  LOGGER,
  PEOPLE,
  PLUGINS,
  REDACTOR,
  REJECTED_KEYS,
  RETENTION,
  REVOKED_TOKENS,
  RUNNER,
  SERVICE_STATE,
  STORE,
} from "./tokens.ts";

/** A service: hosts agents, answers requests. Created by `createServer`. */
export interface Service {
  readonly options: ServiceOptions;
  /** Address that it listens on, once it does. */
  readonly url: string | undefined;
  /** Answers a request without a socket. */
  fetch(request: Request): Promise<Response>;
  /** Opens the store, sets up plugins and resumes unfinished jobs; once. */
  ready(): Promise<Service>;
  /** Listens; resolves once it does. These values override the service's options. */
  listen(at?: ListenOptions): Promise<Service>;
  /** Refuses new work, lets running requests and steps end, closes everything. */
  close(): Promise<void>;
  /** A part of the service, for tests and plugins. */
  get<T>(token: Token<T>): T;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface ListenOptions {
  readonly host?: string;
  readonly port?: number;
  /** @default Node's own server */
  readonly serve?: Serve;
}

const LISTEN_NAMES: NamesOf<ListenOptions> = { host: true, port: true, serve: true };

export interface ServiceParts {
  readonly options: ResolvedOptions;
  /** Built-in plugins, then the user's. */
  readonly plugins: readonly (Plugin | false | null | undefined)[];
  readonly openStore: StoreFactory;
  /** Where another instance may have the store: decides when it is taken over. */
  readonly standby?: Standby | undefined;
}

/** Milliseconds in which an instance that closes beside others still answers requests. */
const LINGER = 1000;

/** Wires the parts of one service. Nothing starts before `ready`, `fetch` or `listen`. */
export function createService({ options, plugins, openStore, standby }: ServiceParts): Service {
  const scope = createScope(options);
  const ordered = orderPlugins([plugins, options.plugins]);
  const log = scope.get(LOGGER);
  const state = scope.get(SERVICE_STATE);
  let app: H3 | undefined;
  let reports: readonly PluginReport[] = [];
  scope.value(PLUGINS, () => reports);

  let backups: Backups | undefined;
  scope.value(BACKUPS, () => backups?.state());

  let preparing: Promise<void> | undefined;
  let booting: Promise<void> | undefined;
  let isReady = false;
  let closing: Promise<void> | undefined;
  let listening: Promise<HttpServer> | undefined;
  let server: HttpServer | undefined;

  const prepare = async (): Promise<void> => {
    scope.value(SCHEDULES, await resolveSchedules(options.schedules, scope.get(AGENTS)));
    const pluginOptions = await checkPlugins(ordered);
    assertAllKeptApart(options.agents, { controller: options.controller, hidden: [options.dataDir] });
    const tables = [...CORE_TABLES, ...ordered.flatMap((plugin) => plugin.tables ?? [])];
    // Before another instance loses the store.
    if (standby) requireLastingKeys(options);
    const began = performance.now();
    const store = await sealStore(
      openStore,
      options.encryption ?? NO_KEYS,
    )({
      ...{ tables, dataDir: options.dataDir, log },
      admit: (marks) => refuseOther(options, marks),
    });
    noteTime("store", began);
    scope.onClose(() => store.close());
    scope.value(STORE, store);
    // What several instances store is in one order, however their machines' clocks are set.
    if (store.time) options.ownClock?.follow(store.time);
    if (store.isShared) scope.onClose(hearOthers(store, scope.get(EMITTER)));
    // Under the store's lock: if two start in a new folder, only one generates the keys.
    const keys = await loadKeys(options, log, store);
    scope.get(REDACTOR).add(keys.apiKey);
    for (const pem of keys.rsaPrivateKeys) scope.get(REDACTOR).add(pem);
    scope.value(KEYS, keys);
    await claimStore(scope);
    backups = options.backup && (await openBackups(options.backup, scope));
    await scope.get(ACCESS).start();
    scope.onClose(() => scope.get(ACCESS).close());
    await scope.get(REVOKED_TOKENS).start();
    scope.onClose(() => scope.get(REVOKED_TOKENS).close());
    await scope.get(PEOPLE).start();
    scope.onClose(() => scope.get(PEOPLE).close());
    app = createApp(scope);
    const withStore = performance.now();
    reports = await setUpPlugins(ordered, {
      scope,
      hooks: scope.get(EMITTER),
      ledger: scope.get(LEDGER),
      log,
      ready: new Promise<CoreHooks["service:ready"]>((resolve) => {
        scope.get(HOOKS).on("service:ready", resolve);
      }),
      options: pluginOptions,
      timeout: options.pluginTimeout,
    });
    noteTime("plugins", withStore);
  };

  const takeUpJobs = async (): Promise<void> => {
    // Jobs that are resumed only to be interrupted again would lose the work of their steps.
    if (state.closing) return;
    const began = performance.now();
    const life = leaveLifeSigns(ownFile(options, "alive"), options.clock);
    scope.onClose(() => life.end());
    await scope.get(RUNNER).reconcile(life.before);
    await scope.get(RUNNER).schedules.start();
    scope.onClose(() => scope.get(BUDGETS).close());
    scope.onClose(() => scope.get(RETENTION).close());
    scope.onClose(() => scope.get(REJECTED_KEYS).flush());
    const renewal = renewEnvelopes(scope);
    const marked = noteKeyChanges(scope)
      .catch((error: unknown) => log.warn("whether the keys have changed could not be stored", { error }))
      .then(() => renewal.start());
    scope.onClose(() => renewal.close());
    scope.onClose(() => marked);
    scope.onClose(() => scope.get(FILE_SWEEP).close());
    scope.get(RETENTION).start();
    scope.get(FILE_SWEEP).start();
    scope.onClose(() => backups?.close());
    backups?.start();
    noteTime("unfinished jobs", began);
  };

  const prepared = (): Promise<void> => {
    preparing ??= prepare().catch((error: unknown) => {
      throw explainDataFolderError(error, options.dataDir);
    });
    return preparing;
  };

  const waiting = {
    wake: () => standby?.wake(),
    answer: (request: Request) => service.fetch(request),
    clock: options.clock,
    uptime: () => state.uptime(),
    release: state.release,
  };

  const service: Service = {
    options,
    get url() {
      return state.url;
    },
    get: (token) => scope.get(token),
    async fetch(request) {
      standby?.wake();
      await service.ready();
      return (app as H3).fetch(request);
    },
    async ready() {
      if (state.closing && !preparing) throw closedError();
      booting ??= prepared()
        .then(takeUpJobs)
        .then(() => {
          isReady = true;
        });
      await booting;
      return service;
    },
    async listen(at = {}) {
      refuseUnknown(at, LISTEN_NAMES, "listen");
      const { host = options.host, port = options.port, serve = serveWithNode } = at;
      if (state.closing && !preparing) throw closedError();
      // One that waits to take over is reachable meanwhile.
      if (!standby) await prepared();
      if (state.closing) throw closedError();
      // Before jobs are resumed: the jobs of a service that cannot listen stay unchanged. Requests wait until
      // jobs are resumed.
      const fetch = (request: Request) => {
        if (isReady) return (app as H3).fetch(request);
        return standby ? answerInStandby(request, waiting) : service.fetch(request);
      };
      const began = performance.now();
      listening ??= serve({ fetch }, { host, port, bodyLimit: options.bodyLimit });
      try {
        server = await listening;
      } catch (error) {
        listening = undefined;
        throw explainListenError(error, host, port);
      }
      noteTime("listen", began);
      await service.ready();
      if (state.closing) throw closedError();
      if (state.url !== undefined) return service;
      state.port = server.port;
      state.url = `${server.protocol ?? "http"}://${displayHost(host)}:${state.port}`;
      scope.get(EMITTER).emit("service:ready", { url: state.publicUrl, info: state.info() });
      return service;
    },
    close() {
      closing ??= close();
      return closing;
    },
    [Symbol.asyncDispose]: () => service.close(),
  };

  const close = async (): Promise<void> => {
    state.closing = true;
    standby?.close();
    await (booting ?? preparing)?.catch(() => {});
    await listening?.catch(() => {});
    scope.get(EMITTER).emit("service:closing", { reason: undefined });
    // A proxy in front of several instances does not know yet that this one closes.
    const isShared = scope.has(STORE) && scope.get(STORE).isShared === true;
    const stopped = server?.close(false, isShared ? LINGER : 0);
    const forced = setTimeout(() => void server?.close(true), (options.shutdownGrace + 2) * 1000);
    try {
      if (scope.has(STORE)) await scope.get(RUNNER).close(options.shutdownGrace);
      await stopped;
    } finally {
      clearTimeout(forced);
      await scope.close();
    }
  };

  return service;
}

/** Loaded for those who have backups only. */
async function openBackups({ to, every, keep }: ResolvedBackup, scope: Container): Promise<Backups> {
  const { Backups } = await import("../store/backup/backups.ts");
  const { storageFromVariable } = await import("../storage/storage-url.ts");
  const storage = typeof to === "string" ? storageFromVariable("SERVICE_BACKUP_URL", to) : to;
  const [store, log, clock] = [scope.get(STORE), scope.get(LOGGER), scope.get(CLOCK)];
  const { start: startTimer } = new WallTimers(clock);
  const contents = scope.get(FILES).storage;
  return new Backups({ storage, contents, every, keep, store, log, clock, startTimer, version: VERSION });
}

function closedError(): ServiceError {
  return new ServiceError("unavailable", "The service is closed");
}

/** The address as a browser on this machine can open it. */
function displayHost(host: string): string {
  if (host === "0.0.0.0" || host === "::" || host === "[::]") return "127.0.0.1";
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
