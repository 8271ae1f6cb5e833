import { join } from "node:path";
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
import { Container } from "../base/container.ts";
import { createLogger, type LoggerParts } from "../base/log.ts";
import { LogOutput } from "../base/log-output.ts";
import { passwordIn, Redactor } from "../base/redactor.ts";
import { WallTimers } from "../base/wall-timers.ts";
import { Cases } from "../entities/cases.ts";
import { Files } from "../entities/files.ts";
import { Hooks, toListener } from "../entities/hooks.ts";
import { Jobs, type LiveCosts } from "../entities/jobs.ts";
import { Ledger } from "../entities/ledger.ts";
import { ReceivedEvents } from "../entities/received-events.ts";
import { ServiceState } from "../http/service-state.ts";
import { shortInstance } from "../models/own-rows.ts";
import { FileSweep } from "../retention/file-sweep.ts";
import { Retention } from "../retention/retention.ts";
import { Attention } from "../runs/attention/attention.ts";
import { FailureMarks } from "../runs/attention/failure-marks.ts";
import { openUnderWay } from "../runs/cluster/under-way.ts";
import { createRunner } from "../runs/create-runner.ts";
import { Emissions } from "../runs/emissions/emissions.ts";
import { AgentProcesses } from "../runs/isolation/agent-processes.ts";
import { Budgets } from "../runs/queue/budgets.ts";
import { contentsOf } from "../store/files/contents-of.ts";
import { EMISSIONS, EMITTER, FILE_SWEEP, LEDGER, SCHEDULES } from "./inner-tokens.ts";
import type { ResolvedOptions } from "./options.ts";
import { rsaKeysIn } from "./rsa-key.ts";
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

/** A file in the data folder that instances in the same folder do not share. */
export function ownFile({ dataDir, place }: ResolvedOptions, name: string): string {
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
