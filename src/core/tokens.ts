import type { AgentSettings } from "./agents/agent-settings.ts";
import type { Parameters } from "./agents/parameters.ts";
import type { AgentRegistry } from "./agents/registry.ts";
import type { Runner } from "./agents/runner.ts";
import { createToken } from "./container.ts";
import type { ControlSystem } from "./control-system.ts";
import type { Cases } from "./entities/cases.ts";
import type { Jobs } from "./entities/jobs.ts";
import type { Ledger } from "./entities/ledger.ts";
import type { Events } from "./events.ts";
import type { Hooks } from "./hooks.ts";
import type { Gate, SessionVerifier } from "./http/gate.ts";
import type { LiveStreams } from "./http/live-streams.ts";
import type { Router } from "./http/route.ts";
import type { ServiceKeys } from "./keys.ts";
import type { Logger } from "./log.ts";
import type { ResolvedOptions } from "./options.ts";
import type { PluginReport } from "./plugin.ts";
import type { Redactor } from "./redactor.ts";
import type { ServiceState } from "./service-state.ts";
import type { SignInLinks } from "./sign-in-link.ts";
import type { Store } from "./store/store.ts";

export const OPTIONS = createToken<ResolvedOptions>("options");
export const CLOCK = createToken<() => Date>("clock");
export const REDACTOR = createToken<Redactor>("redactor");
export const LOGGER = createToken<Logger>("logger");
export const HOOKS = createToken<Hooks>("hooks");
export const KEYS = createToken<ServiceKeys>("keys");
export const PARAMETERS = createToken<Parameters>("parameters");
export const STORE = createToken<Store>("store");
export const LEDGER = createToken<Ledger>("ledger");
export const JOBS = createToken<Jobs>("jobs");
export const CASES = createToken<Cases>("cases");
export const AGENTS = createToken<AgentRegistry>("agents");
/** What a control system has told agents to keep. */
export const AGENT_SETTINGS = createToken<AgentSettings>("agent settings");
export const RUNNER = createToken<Runner>("runner");
export const ROUTER = createToken<Router>("router");
/** Lets callers in, and counts wrong keys. */
export const GATE = createToken<Gate>("gate");
/** The open event streams; they end when the service closes. */
export const STREAMS = createToken<LiveStreams>("streams");
/** Accepts signed-in people on routes whose auth is `session`; a plugin provides it. */
export const SESSIONS = createToken<SessionVerifier>("sessions");
/** Makes one-time sign-in links; a plugin provides it. */
export const SIGN_IN_LINK = createToken<SignInLinks>("sign-in link");
/** What the service is and how it does: address, start time, whether it is closing. */
export const SERVICE_STATE = createToken<ServiceState>("service state");
/** The plugins in the order of their set-up, with the time that each took. */
export const PLUGINS = createToken<() => readonly PluginReport[]>("plugins");
/** Sends events; given by the plugin `events`. */
export const EVENTS = createToken<Events>("events");
/** The link to the control system: health, dead letters; given by the plugin `events`. */
export const CONTROL_SYSTEM = createToken<ControlSystem>("control system");
