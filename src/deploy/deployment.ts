import { randomUUID } from "node:crypto";
import { Redactor } from "../core/base/redactor.ts";
import type { DeployConfig } from "./config.ts";
import { createDeployTools } from "./create-tools.ts";
import { DeployError } from "./errors.ts";
import type { Emit } from "./events.ts";
import { DEPLOY_FILE, readSettings } from "./file/deploy-file.ts";
import { refuseLinks, USED_ENTRIES } from "./files.ts";
import { parseFlags } from "./flags.ts";
import { checkInstances } from "./job-store.ts";
import { type Journal, type JournalLine, openJournal } from "./journal.ts";
import { checkLabels } from "./labels.ts";
import { type Lock, takeLock } from "./lock.ts";
import { createLockKeeper } from "./lock-keeper.ts";
import { createLogFile, type LogFile } from "./log-file.ts";
import { resolveName, toServiceName } from "./name.ts";
import { DEFAULT_OPTIONS, DEFAULT_PORT, DEFAULT_TIMEOUT, type DeployOptions } from "./options.ts";
import type { DeployTarget, Platform, PlatformSession } from "./platform.ts";
import { pipelineOf } from "./remote-lock.ts";
import { withSecretValues } from "./secrets.ts";
import { openState, type StateFile, type StateKey, stateBase } from "./state.ts";
import { checkStorage } from "./storage.ts";
import { createTimeLimits, type TimeLimits } from "./time-limits.ts";
import type { DeployTools } from "./tools.ts";

/** Everything that a command works with: one target, connected. */
export interface Deployment {
  readonly platform: Platform<never>;
  readonly target: DeployTarget;
  readonly options: DeployOptions;
  readonly config: DeployConfig;
  /** Options of the platform itself that were typed, or are in `deploy.yaml`. */
  readonly given: Readonly<Record<string, unknown>>;
  readonly session: PlatformSession;
  readonly tools: DeployTools;
  readonly limits: TimeLimits;
  readonly journal: Journal;
  readonly state: StateFile;
  readonly redactor: Redactor;
  readonly log: LogFile;
  readonly emit: Emit;
  readonly polling: Polling;
  /** The key that the running service accepted last in this run: it stays the key of that release after another was stored. */
  readonly accepted: { key?: string };
  /** Where region and project were found, as text. */
  readonly sources: { readonly region: string; readonly projectId: string | undefined };
  /** Seconds for rollout and health. */
  readonly timeout: number;
  /** Name of this place, where the deployment has several. */
  readonly place: string | undefined;
  /**
   * Locks the target for this run, once; other runs are refused until `close`. `interrupted` is the run elsewhere whose lock was left
   * behind, in the words of its holder.
   */
  lock(): Promise<Lock & { readonly interrupted: string | undefined }>;
  close(): Promise<void>;
}

/** Pauses of the health check, in seconds. */
export interface Polling {
  readonly firstWait?: number;
  readonly interval?: number;
  readonly timeout?: number;
}

export interface OpenOptions {
  readonly platform: Platform<never>;
  /** The options that were typed: they go before those of `deploy.yaml`. */
  readonly options: Partial<DeployOptions>;
  /** Options of the platform itself that were typed, by key. */
  readonly flags: Readonly<Record<string, unknown>>;
  /** The environment whose part of `deploy.yaml` applies. @default that of the deployment */
  readonly settingsOf?: string | undefined;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The command as shown to others while the lock is held. */
  readonly command: string;
  readonly emit: Emit;
  readonly signal?: AbortSignal;
  readonly redactor?: Redactor;
  readonly fetch?: typeof fetch;
  readonly now?: () => Date;
  readonly sleep?: (milliseconds: number, signal: AbortSignal) => Promise<void>;
  readonly newId?: () => string;
  /** Called after each journal line is on disk. */
  readonly onJournal?: (line: JournalLine) => void;
  readonly polling?: Polling;
}

/** Seconds that a run may take besides the build, the rollout and a rollback. */
const SPARE = 600;

/** Opens the deployment of a target that has one place. Writes nothing. */
export async function openDeployment(open: OpenOptions): Promise<Deployment> {
  const [only, ...others] = await openDeployments(open);
  if (only !== undefined && others.length === 0) return only;
  for (const one of [only, ...others]) await one?.close();
  throw new DeployError("usage", `The deployment has ${others.length + 1} places, and one is needed`);
}

/**
 * Resolves the target, connects the platform and opens state and journal, in each place of the deployment, in their order. Writes
 * nothing.
 */
export async function openDeployments(open: OpenOptions): Promise<readonly Deployment[]> {
  const { platform, options: typed, cwd } = open;
  const env = withSecretValues(open.env);
  await refuseLinks(cwd, USED_ENTRIES);
  const settings = await readSettings(
    cwd,
    open.settingsOf ?? typed.env ?? DEFAULT_OPTIONS.env,
    platform,
    env,
  );
  const { config } = settings;
  const options: DeployOptions = { ...DEFAULT_OPTIONS, ...settings.options, ...typed };
  const given = { ...settings.flags, ...open.flags };
  if (options.storage !== undefined) checkStorage(options.storage);
  if (config.store === "file" || options.storage !== undefined) checkInstances(given);
  const name = resolveName(options.name, cwd);
  const serviceName = toServiceName(name, options.env);
  const complaint = platform.checkName?.(serviceName);
  if (complaint !== undefined)
    throw new DeployError("usage", `"${serviceName}" is not a valid name on ${platform.name}: ${complaint}`, {
      fix: "Choose another with --name",
    });

  checkLabels(platform, config.labels);
  const defaults = (await platform.defaults?.(env)) ?? {};
  const sourceOf = (option: "region" | "projectId", flag: string) =>
    typed[option] !== undefined ? flag : options[option] !== undefined ? DEPLOY_FILE : undefined;
  const flags = parseFlags(platform.flags, given);
  const places: readonly Readonly<Record<string, unknown>>[] = platform.split?.(flags as never) ?? [flags];
  const log = createLogFile(cwd, open.now ?? (() => new Date()));
  const opened: Deployment[] = [];
  for (const own of places) {
    const target: DeployTarget = {
      name,
      environment: options.env,
      serviceName,
      region: options.region ?? defaults.region?.value ?? platform.defaultRegion,
      projectId: options.projectId ?? defaults.projectId?.value,
      port: options.port ?? DEFAULT_PORT,
      storage: options.storage,
      labels: config.labels,
      flags: own,
      cwd,
      places: places.length,
    };
    const resolved = { target, options, config, given, env, log };
    const sources = {
      region: sourceOf("region", "--region") ?? defaults.region?.source ?? "default",
      projectId: sourceOf("projectId", "--project-id") ?? defaults.projectId?.source,
    };
    try {
      opened.push(await connect(open, { ...resolved, sources }));
    } catch (error) {
      for (const one of opened) await one.close();
      throw error;
    }
  }
  return opened;
}

/** Connects the platform in one place, and opens state and journal. */
async function connect(
  open: OpenOptions,
  resolved: Pick<Deployment, "target" | "options" | "config" | "given" | "log" | "sources"> &
    Required<Pick<OpenOptions, "env">>,
): Promise<Deployment> {
  const { platform, cwd, command, now = () => new Date(), newId = randomUUID } = open;
  const { target, options, env, log } = resolved;
  const key = stateKey({ platform, target });
  const redactor = open.redactor ?? new Redactor();
  let logs = false;
  const emit: Emit = (event) => {
    if (logs) log.write(event);
    open.emit(event);
  };
  const run = newId();
  const limits = createTimeLimits(open.signal);
  const keeper = createLockKeeper(now, (error) => limits.stop(error));
  const journal = openJournal({
    path: `${stateBase(key)}.journal`,
    run,
    now,
    clean: (text) => redactor.text(text),
    ...(open.onJournal ? { onLine: open.onJournal } : {}),
  });
  const tools = createDeployTools({
    cwd,
    env,
    journal,
    redactor,
    now,
    newId,
    signal: () => limits.signal,
    guard: () => keeper.beat(),
    onReport: (message) => emit({ type: "report", message }),
    onOutput: (line) => emit({ type: "output", line }),
    ...(open.fetch ? { fetch: open.fetch } : {}),
    ...(open.sleep ? { sleep: open.sleep } : {}),
  });
  const session = await platform.connect(target as DeployTarget<never>, tools);
  const unlock: (() => Promise<void>)[] = [];
  const timeout = options.timeout ?? platform.timeout ?? DEFAULT_TIMEOUT;

  async function lock(): ReturnType<Deployment["lock"]> {
    const lock = await takeLock(`${stateBase(key)}.lock`, {
      id: run,
      command,
      now,
      pipeline: pipelineOf(env),
    });
    unlock.push(() => lock.release());
    logs = true;
    let interrupted: string | undefined;
    const asked = now();
    const away = await session.lock?.(lock.holder, {
      seconds: options.buildTimeout + 2 * timeout + SPARE,
      breakLock: options.breakLock === true,
      onTakeOver: (holder) => {
        interrupted = holder;
      },
      onLease: (renew) => keeper.keep(renew, asked),
    });
    if (away) unlock.push(away);
    return { ...lock, interrupted };
  }
  let locked: ReturnType<Deployment["lock"]> | undefined;

  return {
    ...resolved,
    platform,
    session,
    tools,
    limits,
    journal,
    redactor,
    emit,
    state: openState(key),
    polling: open.polling ?? {},
    accepted: {},
    timeout,
    place: (target.places ?? 1) > 1 ? key.place : undefined,
    lock() {
      locked ??= lock();
      return locked;
    },
    async close() {
      keeper.stop();
      for (const release of unlock.reverse()) await release();
      await session.close?.();
    },
  };
}

/** What the state of a target is kept by. */
export function stateKey({ platform, target }: Pick<Deployment, "platform" | "target">): StateKey {
  const { cwd, serviceName, flags } = target;
  return { cwd, serviceName, platform: platform.name, place: platform.placeOf?.(flags as never) };
}
