import * as v from "valibot";
import { assertStillIn } from "../../core/access/assert-still-in.ts";
import type { Caller } from "../../core/audit/caller.ts";
import type { Duration } from "../../core/base/duration.ts";
import { isNotInstalled, optionalPackage } from "../../core/base/optional-package.ts";
import { createGuardedFetch } from "../../core/delivery/guarded-post.ts";
import { baseUrl } from "../../core/http/base-url.ts";
import { definePlugin, type Plugin, PluginError } from "../../core/service/plugin.ts";
import {
  noSuchAgent,
  OptionDurationSchema,
  protocolParts,
  protocolPath,
} from "../../core/service/protocol-parts.ts";
import {
  ACCESS,
  EVENTS,
  OPTIONS,
  PEOPLE,
  ROUTER,
  SERVICE_STATE,
  SIGNING_KEYS,
  STORE,
  STREAMS,
} from "../../core/service/tokens.ts";
import { cardKeysOf } from "./card.ts";
import { A2A_MESSAGE_TABLE, forgetMessages } from "./messages.ts";
import type { A2aParts } from "./parts.ts";
import { A2A_PUSH_TABLE, createPushTarget, PushConfigs, pushChanges } from "./push.ts";
import type { A2aSdk } from "./requests.ts";
import { a2aRoutes } from "./routes.ts";

export interface A2aOptions {
  /** Path of the endpoints, after the service's `apiPrefix`; each agent's is below it, by its slug. @default "/a2a" */
  readonly path?: string;
  /** Slugs of the agents that clients see. @default all agents */
  readonly agents?: readonly string[];
  /** How long a message waits for its task at most. @default until the task has ended or asks something */
  readonly wait?: Duration;
  /** Slug of the agent whose card is at `/.well-known/agent-card.json`. @default the agent, if clients see only one */
  readonly main?: string;
  /** Whether cards can be read without the API key. @default false */
  readonly publicCards?: boolean;
  /** Private RSA key, PEM, that signs the cards. @default the service's own */
  readonly signingKey?: string;
  /** Lets push notifications reach this machine and private networks. @default false */
  readonly allowPrivate?: boolean;
}

const OptionsSchema = v.strictObject({
  path: protocolPath("/a2a"),
  agents: v.optional(v.array(v.string())),
  wait: v.optional(OptionDurationSchema),
  main: v.optional(v.string()),
  publicCards: v.optional(v.boolean(), false),
  signingKey: v.optional(v.string()),
  allowPrivate: v.optional(v.boolean(), false),
});

/**
 * Serves the agents to clients of the Agent2Agent protocol, over JSON-RPC and REST: a job is a task, its cases are
 * artifacts, and its questions are what the task requires. Needs the package `@a2a-js/sdk`.
 *
 * @example
 * createServer({ agents: [auditor], plugins: [a2a()] });
 */
export const a2a = definePlugin({
  name: "a2a",
  options: OptionsSchema,
  dependsOn: ["events"],
  tables: [A2A_MESSAGE_TABLE, A2A_PUSH_TABLE],
  async setup(context) {
    const { options, get, participate } = context;
    const sdk = await loadSdk();
    const { apiPrefix } = get(OPTIONS);
    const state = get(SERVICE_STATE);
    const parts: A2aParts = {
      ...protocolParts(context, options.agents),
      // Of push notifications: it is known once the service listens.
      get base() {
        return baseUrl(state, apiPrefix);
      },
      push: new PushConfigs(get(STORE)),
      wait: options.wait,
    };
    const { agents } = parts;
    const shown = options.agents ?? agents.list().map(({ slug }) => slug);
    for (const slug of [...shown, ...(options.main === undefined ? [] : [options.main])])
      if (!agents.find(slug) || (slug === options.main && !shown.includes(slug)))
        throw noSuchAgent("a2a", slug, agents);
    participate(forgetMessages);
    participate(pushChanges(get(EVENTS), () => parts.base));
    const guards = { access: get(ACCESS), people: get(PEOPLE) };
    const assertIn = (by: Caller): void => assertStillIn(guards, by);
    get(EVENTS).addTarget(createPushTarget(get(STORE), createGuardedFetch(options.allowPrivate), assertIn));
    const routes = a2aRoutes(sdk, parts, {
      prefix: `${apiPrefix}${options.path}`,
      apiPrefix,
      keys: options.signingKey === undefined ? get(SIGNING_KEYS) : cardKeysOf(options.signingKey),
      state,
      streams: get(STREAMS),
      publicCards: options.publicCards,
      main: options.main ?? (shown.length === 1 ? shown[0] : undefined),
    });
    for (const route of routes) get(ROUTER).add(route);
  },
}) as (options?: A2aOptions) => Plugin;

/** Loads the SDK, which only those have who use this plugin. */
async function loadSdk(): Promise<A2aSdk> {
  const load = () =>
    Promise.all([import("@a2a-js/sdk"), import("@a2a-js/sdk/errors"), import("@a2a-js/sdk/server")]);
  const missing = () => new PluginError(isNotInstalled('Plugin "a2a"', "@a2a-js/sdk", 1));
  const [types, errors, server] = await optionalPackage(load, missing);
  return { types, errors, server };
}
