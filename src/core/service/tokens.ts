import type { AccessKeys } from "../access/access-keys.ts";
import type { People } from "../access/people.ts";
import type { RevokedTokens } from "../access/revoked-tokens.ts";
import type { SigningKeys } from "../access/signing-keys.ts";
import type { AgentSettings } from "../agents/agent-settings.ts";
import type { Parameters } from "../agents/parameters.ts";
import type { AgentRegistry } from "../agents/registry.ts";
import type { AuditLog } from "../audit/audit-log.ts";
import type { RejectedKeys } from "../audit/rejected-keys.ts";
import { createSharedToken } from "../base/container.ts";
import type { Logger } from "../base/log.ts";
import type { Redactor } from "../base/redactor.ts";
import type { Threads } from "../conversations/threads.ts";
import type { ControlSystem } from "../delivery/control-system.ts";
import type { Events } from "../delivery/events.ts";
import type { Cases } from "../entities/cases.ts";
import type { Files } from "../entities/files.ts";
import type { HookListener } from "../entities/hooks.ts";
import type { Jobs } from "../entities/jobs.ts";
import type { Clients } from "../http/clients.ts";
import type { Gate, SessionVerifier } from "../http/gate.ts";
import type { JobFeed } from "../http/job-feed.ts";
import type { LiveStreams } from "../http/live-streams.ts";
import type { Router } from "../http/route.ts";
import type { Sights } from "../http/seen.ts";
import type { ServiceState } from "../http/service-state.ts";
import type { Retention } from "../retention/retention.ts";
import type { Attention } from "../runs/attention/attention.ts";
import type { Budgets } from "../runs/queue/budgets.ts";
import type { Runner } from "../runs/runner.ts";
import type { TraceSource } from "../runs/traced-call.ts";
import type { BackupState } from "../store/backup/backups.ts";
import type { Store } from "../store/store.ts";
import type { ServiceKeys } from "./keys.ts";
import type { ResolvedOptions } from "./options.ts";
import type { PluginReport } from "./set-up-plugins.ts";

/** The named keys. */
export const ACCESS = createSharedToken<AccessKeys>("access");
/** Tokens of jobs that no longer count. */
export const REVOKED_TOKENS = createSharedToken<RevokedTokens>("revoked tokens");
/** What the service signs with. */
export const SIGNING_KEYS = createSharedToken<SigningKeys>("signing keys");
/** The people whom an identity provider vouches for. */
export const PEOPLE = createSharedToken<People>("people");
export const OPTIONS = createSharedToken<ResolvedOptions>("options");
export const CLOCK = createSharedToken<() => Date>("clock");
export const REDACTOR = createSharedToken<Redactor>("redactor");
export const LOGGER = createSharedToken<Logger>("logger");
/** Adds observers. */
export const HOOKS = createSharedToken<HookListener>("hooks");
export const KEYS = createSharedToken<ServiceKeys>("keys");
export const PARAMETERS = createSharedToken<Parameters>("parameters");
/** The store: tables and logs. */
export const STORE = createSharedToken<Store>("store");
/** Reads jobs; `RUNNER` starts, stops, changes and removes them. */
export const JOBS = createSharedToken<Jobs>("jobs");
/** Reads cases; `RUNNER` answers, changes and removes them. */
export const CASES = createSharedToken<Cases>("cases");
export const AGENTS = createSharedToken<AgentRegistry>("agents");
/** Settings of agents from a control system. */
export const AGENT_SETTINGS = createSharedToken<AgentSettings>("agent settings");
/** The audit log of security-relevant actions. */
export const AUDIT = createSharedToken<AuditLog>("audit log");
/** Counts wrong keys for the audit log. */
export const REJECTED_KEYS = createSharedToken<RejectedKeys>("rejected keys");
/** Keeps the contents of files. */
export const FILES = createSharedToken<Files>("files");
/** Removes expired jobs. */
export const RETENTION = createSharedToken<Retention>("retention");
/** What agents have spent of their budgets. */
export const BUDGETS = createSharedToken<Budgets>("budgets");
/** What needs a person. */
export const ATTENTION = createSharedToken<Attention>("attention");
/** The backups of the store, if they are made. */
export const BACKUPS = createSharedToken<() => BackupState | undefined>("backups");
export const RUNNER = createSharedToken<Runner>("runner");
/** Takes the routes of plugins. */
export const ROUTER = createSharedToken<Router>("router");
/** Determines where requests come from, including behind proxies. */
export const CLIENTS = createSharedToken<Clients>("clients");
/** Authenticates callers, and counts wrong keys. */
export const GATE = createSharedToken<Gate>("gate");
/** Follows jobs, as their streams do. */
export const JOB_FEED = createSharedToken<JobFeed>("job feed");
/** Threads of agents that people chat with. */
export const THREADS = createSharedToken<Threads>("threads");
/** Gives the agents, jobs, cases, runner and threads as a caller sees them. */
export const SEEN = createSharedToken<Sights["of"]>("seen");
/** The open event streams; they end when the service closes. */
export const STREAMS = createSharedToken<LiveStreams>("streams");
/** Accepts signed-in people on routes whose auth is `session`; a plugin provides it. */
export const SESSIONS = createSharedToken<SessionVerifier>("sessions");
/** Creates one-time sign-in links; a plugin provides it. */
export const SIGN_IN_LINK = createSharedToken<SignInLinks>("sign-in link");
/** State of the service: address, start time, whether it is closing. */
export const SERVICE_STATE = createSharedToken<ServiceState>("service state");
/** The plugins in setup order, with the time that each took. */
export const PLUGINS = createSharedToken<() => readonly PluginReport[]>("plugins");
/** Says how other services continue the traces of jobs; a plugin provides it. */
export const TRACES = createSharedToken<TraceSource>("traces");
/** Sends events; provided by the plugin `events`. */
export const EVENTS = createSharedToken<Events>("events");
/** The link to the control system: health, dead letters; provided by the plugin `events`. */
export const CONTROL_SYSTEM = createSharedToken<ControlSystem>("control system");

/** Creates one-time sign-in links; a plugin provides it as `SIGN_IN_LINK`. */
export interface SignInLinks {
  /** A link that works once, for a few minutes, on every instance. `base` is the service's address. */
  create(base: string): Promise<SignInLink>;
}

export interface SignInLink {
  readonly url: string;
  readonly expiresAt: Date;
}
