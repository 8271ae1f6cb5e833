import { join } from "node:path";
import type { H3 } from "h3";
import { AccessKeys } from "../access/access-keys.ts";
import { assertAgentsExist } from "../access/assert-agents-exist.ts";
import { People } from "../access/people.ts";
import { RevokedTokens } from "../access/revoked-tokens.ts";
import { SigningKeys } from "../access/signing-keys.ts";
import { AgentSettings } from "../agents/agent-settings.ts";
import { Parameters } from "../agents/parameters.ts";
import { AgentRegistry } from "../agents/registry.ts";
import { AuditLog } from "../audit/audit-log.ts";
import { RejectedKeys } from "../audit/rejected-keys.ts";
import { Container, type Token } from "../base/container.ts";
import { ServiceError } from "../base/errors.ts";
import { createLogger, type LoggerParts } from "../base/log.ts";
import { LogOutput } from "../base/log-output.ts";
import { noteTime } from "../base/note-time.ts";
import { passwordIn, Redactor } from "../base/redactor.ts";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import { WallTimers } from "../base/wall-timers.ts";
import { Cases } from "../entities/cases.ts";
import { Files } from "../entities/files.ts";
import { type CoreHooks, Hooks, toListener } from "../entities/hooks.ts";
import { Jobs, type LiveCosts } from "../entities/jobs.ts";
import { Ledger } from "../entities/ledger.ts";
import { ReceivedEvents } from "../entities/received-events.ts";
import { hearOthers } from "../entities/touched.ts";
import { explainListenError } from "../http/listen-error.ts";
import { type HttpServer, type Serve, serveWithNode } from "../http/serve.ts";
import { ServiceState, VERSION } from "../http/service-state.ts";
import { answerInStandby } from "../http/standby-answer.ts";
import { shortInstance } from "../models/own-rows.ts";
import { FileSweep } from "../retention/file-sweep.ts";
import { Retention } from "../retention/retention.ts";
import { Attention } from "../runs/attention/attention.ts";
import { FailureMarks } from "../runs/attention/failure-marks.ts";
import { openUnderWay } from "../runs/cluster/under-way.ts";
import { createRunner } from "../runs/create-runner.ts";
import { Emissions } from "../runs/emissions/emissions.ts";
import { AgentProcesses } from "../runs/isolation/agent-processes.ts";
import { assertAllKeptApart } from "../runs/isolation/kept-apart.ts";
import { Budgets } from "../runs/queue/budgets.ts";
import { resolveSchedules } from "../runs/schedules/define-schedule.ts";
import type { Backups } from "../store/backup/backups.ts";
import type { Standby } from "../store/bucket/standby.ts";
import { NO_KEYS } from "../store/encryption/keyring.ts";
import { sealStore } from "../store/encryption/sealed-store.ts";
import { contentsOf } from "../store/files/contents-of.ts";
import type { StoreFactory } from "../store/store.ts";
import { CORE_TABLES } from "../store/tables.ts";
import { createApp } from "./app.ts";
import type { ResolvedBackup } from "./backup-options.ts";
import { checkPlugins } from "./check-plugins.ts";
import { explainDataFolderError } from "./data-folder-error.ts";
import { EnvelopeRenewal } from "./envelope-renewal.ts";
import { EMISSIONS, EMITTER, FILE_SWEEP, LEDGER, SCHEDULES } from "./inner-tokens.ts";
import { loadKeys, requireLastingKeys } from "./keys.ts";
import { leaveLifeSigns } from "./life-sign.ts";
import type { ResolvedOptions } from "./options.ts";
import { orderPlugins, type Plugin } from "./plugin.ts";
import { rsaKeysIn } from "./rsa-key.ts";
import type { ServiceOptions } from "./service-options.ts";
import { type PluginReport, setUpPlugins } from "./set-up-plugins.ts";
import { claimStore, hasFormerMark, noteKey, refuseOther, showOwner } from "./store-owner.ts";
import {
  ACCESS,
  AGENT_SETTINGS,
  AGENTS,
  ATTENTION,
  AUDIT,
  BACKUPS,
  BUDGETS,
  CASES,
  CLOCK,
  CONTROL_SYSTEM,
  FILES,
  HOOKS,
  JOBS,
  KEYS,
  LOGGER,
  OPTIONS,
  PARAMETERS,
  PEOPLE,
  PLUGINS,
  REDACTOR,
  REJECTED_KEYS,
  RETENTION,
  REVOKED_TOKENS,
  RUNNER,
  SERVICE_STATE,
  SIGNING_KEYS,
  STORE,
  TRACES,
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

/** A file in the data folder that instances in the same folder do not share. */
function ownFile({ dataDir, place }: ResolvedOptions, name: string): string {
  return join(dataDir, place === undefined ? name : `${name}-${place}`);
}

/** The parts of a service by their tokens; without its store and keys. */
export function createScope(options: ResolvedOptions): Container {
  const scope = new Container();
  const redactor = new Redactor();
  const { apiKey, previousApiKey, rsaPrivateKey, previousRsaPrivateKey, account, databaseUrl } = options;
  const { signIn } = options.access;
  if (signIn && signIn.kind !== "proxy") redactor.add(signIn.clientSecret);
  const rsaKeys = [rsaPrivateKey, ...rsaKeysIn(previousRsaPrivateKey)];
  for (const secret of [apiKey, previousApiKey, ...rsaKeys, account?.api_key, databaseUrl]) {
    redactor.add(secret);
  }
  redactor.add(databaseUrl && passwordIn(databaseUrl));
  for (const secret of options.encryption?.secrets ?? []) redactor.add(secret);
  for (const { secrets } of options.receivers) for (const secret of secrets) redactor.add(secret);
  scope.value(OPTIONS, options);
  scope.value(CLOCK, options.clock);
  scope.value(REDACTOR, redactor);
  let instance = (): string | undefined => undefined;
  const output = new LogOutput(
    () => process.stderr,
    (lost) => scope.get(LOGGER).warn("lines of the log were lost: it could not be written", { lost }),
  );
  const unobserved: LoggerParts = {
    level: options.logLevel,
    format: options.logFormat,
    redactor,
    clock: options.clock,
    write: options.logTo ?? output.write,
    instance: () => instance(),
  };
  scope.factory(EMITTER, () => {
    // A failing log observer must not be notified of its own failure.
    const quiet = createLogger(unobserved);
    return new Hooks((name, error) => {
      const log = name === "log" ? quiet : scope.get(LOGGER);
      log.error("an observer failed", { hook: name, error });
    });
  });
  scope.factory(HOOKS, () => toListener(scope.get(EMITTER)));
  scope.factory(LOGGER, () =>
    createLogger({ ...unobserved, observe: (record) => scope.get(EMITTER).emit("log", record) }),
  );
  scope.value(AGENTS, new AgentRegistry(options.agents, options.build));
  scope.class(SERVICE_STATE, ServiceState, [OPTIONS, AGENTS]);
  scope.factory(
    PARAMETERS,
    () => new Parameters(scope.get(KEYS), redactor, { envelopes: options.envelopes }),
  );
  scope.factory(EMISSIONS, () => new Emissions(redactor));
  scope.class(LEDGER, Ledger, [STORE, EMITTER, CLOCK, REDACTOR]);
  const liveCosts: LiveCosts = {};
  scope.factory(JOBS, () => new Jobs(scope.get(STORE), liveCosts, scope.get(CLOCK)));
  scope.class(CASES, Cases, [STORE, CLOCK]);
  scope.class(AGENT_SETTINGS, AgentSettings, [STORE, LEDGER, AUDIT]);
  scope.factory(BUDGETS, () => {
    const [store, ledger, agents] = [scope.get(STORE), scope.get(LEDGER), scope.get(AGENTS)];
    const [hooks, log] = [scope.get(EMITTER), scope.get(LOGGER)];
    const { clock, workspaces } = options;
    return new Budgets({ store, ledger, agents, workspaces, hooks, log, clock });
  });
  scope.factory(FILES, () => {
    const [store, ledger] = [scope.get(STORE), scope.get(LEDGER)];
    const limits = {
      file: options.fileLimit,
      job: options.jobFilesLimit,
      workspace: options.workspaceFilesLimit,
    };
    const { encryption: keys } = options;
    return new Files({ store, ledger, storage: contentsOf(store, options.dataDir), keys, limits });
  });
  scope.factory(
    FILE_SWEEP,
    () =>
      new FileSweep({
        files: scope.get(FILES),
        store: scope.get(STORE),
        storage: contentsOf(scope.get(STORE), options.dataDir),
        log: scope.get(LOGGER),
        clock: options.clock,
        startTimer: new WallTimers(options.clock).start,
      }),
  );
  scope.factory(RUNNER, () => {
    const runner = createRunner({
      agents: scope.get(AGENTS),
      jobs: scope.get(JOBS),
      liveCosts,
      cases: scope.get(CASES),
      received: new ReceivedEvents(scope.get(STORE)),
      ledger: scope.get(LEDGER),
      files: scope.get(FILES),
      parameters: scope.get(PARAMETERS),
      settings: scope.get(AGENT_SETTINGS),
      hooks: scope.get(EMITTER),
      log: scope.get(LOGGER),
      audit: scope.get(AUDIT),
      store: scope.get(STORE),
      schedules: scope.has(SCHEDULES) ? scope.get(SCHEDULES) : [],
      redactor,
      emissions: scope.get(EMISSIONS),
      trace: async (call) => (scope.has(TRACES) ? scope.get(TRACES)(call) : undefined),
      clock: options.clock,
      startTimer: options.startTimer,
      advancedBy: options.advancedBy,
      apiUrl: options.account?.api_url ?? null,
      workspace: options.account?.workspace_id ?? "local",
      provesPeople: options.access.signIn !== undefined,
      maxConcurrentJobs: options.maxConcurrentJobs,
      maxQueuedJobs: options.maxQueuedJobs,
      workspaces: options.workspaces,
      deletedKeep: options.deletedRetention,
      budgets: scope.get(BUDGETS),
      stopGrace: options.stopGrace,
      suspendAfter: options.suspendAfter,
      strictSteps: options.strictSteps,
      get: (token) => scope.get(token),
      isPaused: options.paused,
      leaseTimes: options.leaseTimes,
      processes: new AgentProcesses(options.controller, { hidden: [options.dataDir] }),
      // Instances that share the store see there what was under way.
      underWay: scope.get(STORE).isShared ? undefined : openUnderWay(ownFile(options, "under-way")),
    });
    instance = () => shortInstance(runner.instance);
    return runner;
  });
  scope.factory(
    ATTENTION,
    () =>
      new Attention({
        jobs: scope.get(JOBS),
        cases: scope.get(CASES),
        budgets: scope.get(BUDGETS),
        marks: new FailureMarks(scope.get(STORE), scope.get(LEDGER), scope.get(AUDIT)),
        store: scope.get(STORE),
        runner: scope.get(RUNNER),
        backups: scope.get(BACKUPS),
        deadLetters: async () =>
          scope.has(CONTROL_SYSTEM) ? (await scope.get(CONTROL_SYSTEM).counts()).dead : 0,
        clock: options.clock,
      }),
  );
  scope.factory(
    AUDIT,
    () =>
      new AuditLog({
        store: scope.get(STORE),
        ledger: scope.get(LEDGER),
        redactor,
        log: scope.get(LOGGER),
      }),
  );
  scope.factory(ACCESS, () => {
    const [store, ledger, audit, log] = [
      scope.get(STORE),
      scope.get(LEDGER),
      scope.get(AUDIT),
      scope.get(LOGGER),
    ];
    const agents = scope.get(AGENTS);
    const declared = options.access.keys;
    return new AccessKeys({
      ...{ store, ledger, audit, log, declared, agents, clock: options.clock },
    });
  });
  scope.factory(SIGNING_KEYS, () => {
    const [store, ledger, audit] = [scope.get(STORE), scope.get(LEDGER), scope.get(AUDIT)];
    return new SigningKeys({ store, ledger, audit, parameters: scope.get(PARAMETERS) });
  });
  scope.factory(REVOKED_TOKENS, () => {
    const [store, ledger, audit] = [scope.get(STORE), scope.get(LEDGER), scope.get(AUDIT)];
    return new RevokedTokens({ store, ledger, audit, log: scope.get(LOGGER), clock: options.clock });
  });
  scope.factory(PEOPLE, () => {
    const [store, ledger, audit] = [scope.get(STORE), scope.get(LEDGER), scope.get(AUDIT)];
    const [agents, log, { signIn }] = [scope.get(AGENTS), scope.get(LOGGER), options.access];
    const roles = signIn?.roles ?? {};
    for (const [who, given] of Object.entries(roles)) {
      const limits = typeof given === "string" ? undefined : given.agents;
      assertAgentsExist(limits, agents, `The role of "${who}"`);
    }
    return new People({ store, ledger, audit, log, roles, clock: options.clock });
  });
  scope.class(REJECTED_KEYS, RejectedKeys, [AUDIT]);
  scope.factory(
    RETENTION,
    () =>
      new Retention({
        store: scope.get(STORE),
        ledger: scope.get(LEDGER),
        agents: scope.get(AGENTS),
        policy: options.retention,
        workspaces: options.workspaces,
        audit: scope.get(AUDIT),
        auditKeep: options.auditRetention,
        eventKeep: options.eventRetention,
        deletedKeep: options.deletedRetention,
        log: scope.get(LOGGER),
        clock: options.clock,
        elapsed: () => performance.now(),
        // A test that advances the clock does not advance it through each sweep.
        startTimer: new WallTimers(options.clock).start,
      }),
  );
  return scope;
}

function closedError(): ServiceError {
  return new ServiceError("unavailable", "The service is closed");
}

/** The address as a browser on this machine can open it. */
function displayHost(host: string): string {
  if (host === "0.0.0.0" || host === "::" || host === "[::]") return "127.0.0.1";
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}

function renewEnvelopes(scope: Container): EnvelopeRenewal {
  const clock = scope.get(CLOCK);
  return new EnvelopeRenewal({
    store: scope.get(STORE),
    settings: scope.get(AGENT_SETTINGS),
    ledger: scope.get(LEDGER),
    signing: scope.get(SIGNING_KEYS),
    parameters: scope.get(PARAMETERS),
    audit: scope.get(AUDIT),
    log: scope.get(LOGGER),
    clock,
    startTimer: new WallTimers(clock).start,
    noteKey: () => noteKey(scope, "rsa-key"),
  });
}

async function noteKeyChanges(scope: Container): Promise<void> {
  const log = scope.get(LOGGER);
  await noteKey(scope, "api-key");
  const isKnown = await hasFormerMark(scope);
  const isOther = await noteKey(scope, "rsa-key");
  await showOwner(scope);
  if (isOther && isKnown) log.info("the RSA key is another one than at the last start, which is still read");
  if (isOther && !isKnown) {
    log.warn(
      "the RSA key is another one than at the last start: parameters that are stored for agents cannot be read with it, and tokens of browsers and sign-ins from before are not valid. Give the former key as SERVICE_PREVIOUS_RSA_PRIVATE_KEY, or store the parameters again",
    );
  }
  const where = { status: "awaiting", stop_reason: "unreadable_parameters" };
  const unreadable = isOther
    ? await countUnreadable(scope)
    : (await scope.get(JOBS).list({ where, limit: 0 })).total;
  if (unreadable === 0) return;
  log.error(
    "the parameters of open jobs cannot be read with the present RSA key: these jobs are held. Give the service the key that they were encrypted for (SERVICE_PREVIOUS_RSA_PRIVATE_KEY; a generated one is rsa-private-key.pem in the data folder), and they resume by themselves; or stop them",
    { jobs: unreadable },
  );
}

/** Open jobs that are held, or will be once they run, as their parameters cannot be read. */
async function countUnreadable(scope: Container): Promise<number> {
  const [jobs, agents, parameters] = [scope.get(JOBS), scope.get(AGENTS), scope.get(PARAMETERS)];
  const where = { status: ["stopped", "in_progress", "awaiting"] };
  let count = 0;
  const ids = await jobs.ids({ where, sort: "id", limit: Number.POSITIVE_INFINITY });
  for (const id of ids) {
    const job = await jobs.find(id);
    if (
      job?.encrypted_agent_parameters &&
      !parameters.canOpen(job.encrypted_agent_parameters, agents.of(job))
    )
      count++;
  }
  return count;
}
