import { H3, type H3Event, type HTTPError } from "h3";
import { AccessTokens } from "../access/access-tokens.ts";
import { Assertions } from "../access/assertions.ts";
import { IdentityProvider } from "../access/identity-provider.ts";
import { type Container, createSharedToken, type Token } from "../base/container.ts";
import { ServiceError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { Threads } from "../conversations/threads.ts";
import { Clients } from "../http/clients.ts";
import { Cors } from "../http/cors.ts";
import { EnvelopeGate } from "../http/envelope-gate.ts";
import { toErrorAnswer, toServiceError } from "../http/failure.ts";
import { Gate } from "../http/gate.ts";
import { JobFeed, type SharedFeed } from "../http/job-feed.ts";
import { JobTokens } from "../http/job-tokens.ts";
import { LiveStreams } from "../http/live-streams.ts";
import { machineRoutes } from "../http/machine/routes.ts";
import { keepMiddlewareNear } from "../http/near-middleware.ts";
import { ProtectedResources } from "../http/protected-resources.ts";
import { ProxiedPeople } from "../http/proxied-people.ts";
import { AppRouter } from "../http/router.ts";
import { Sights } from "../http/seen.ts";
import { EmissionRelay } from "../runs/emissions/emission-relay.ts";
import { EMISSIONS } from "./inner-tokens.ts";
import type { ResolvedOptions } from "./options.ts";
import {
  ACCESS,
  AGENT_SETTINGS,
  AGENTS,
  ATTENTION,
  AUDIT,
  BACKUPS,
  CASES,
  CLIENTS,
  CLOCK,
  FILES,
  GATE,
  HOOKS,
  JOB_FEED,
  JOBS,
  KEYS,
  LOGGER,
  OPTIONS,
  PARAMETERS,
  PEOPLE,
  REDACTOR,
  REJECTED_KEYS,
  REVOKED_TOKENS,
  ROUTER,
  RUNNER,
  SEEN,
  SERVICE_STATE,
  SESSIONS,
  SIGNING_KEYS,
  STORE,
  STREAMS,
  THREADS,
} from "./tokens.ts";

/** h3's own app, for middleware and handlers beside the routes. It changes when h3 does. */
export const H3_APP: Token<H3> = createSharedToken<H3>("h3 app");

/** The HTTP interface of a service; adds the router, the gate and the live streams to the scope. */
export function createApp(scope: Container): H3 {
  const clock = scope.get(CLOCK);
  const log = scope.get(LOGGER);
  const options = scope.get(OPTIONS);
  const redactor = scope.get(REDACTOR);
  const hooks = scope.get(HOOKS);
  const clients = new Clients(options.trustProxy, () =>
    log.warn(
      "A request came through an untrusted proxy, so its client's address is unknown. Set SERVICE_TRUST_PROXY",
    ),
  );
  const { allowedOrigins } = options;
  const cors =
    allowedOrigins.length > 0 ? new Cors(allowedOrigins, (event) => router.isForPages(event)) : undefined;
  const app = keepMiddlewareNear(
    new H3({
      silent: true,
      ...observe(log, { options, clients, cors }),
      onError: (error, event) => {
        const permission = cors?.preflight(event);
        if (permission) return permission;
        const form = router.errorsOf(event);
        const failure = isUnanswered(error, event)
          ? noRoute(router.allowed(event), form && event)
          : toServiceError(error, log);
        return toErrorAnswer(failure, { now: clock(), redactor, form });
      },
    }),
  );
  const { apiKey, previousApiKey, rsaPrivateKeys } = scope.get(KEYS);
  const apiKeys = previousApiKey === undefined ? [apiKey] : [apiKey, previousApiKey];
  const tokens = new JobTokens({
    keys: { apiKeys, rsaPrivateKeys },
    access: scope.get(ACCESS),
    revoked: scope.get(REVOKED_TOKENS),
    clock,
  });
  scope.value(CLIENTS, clients);
  const gate = new Gate({
    apiKeys,
    keys: scope.get(ACCESS),
    tokens,
    clock,
    clients,
    rejected: scope.get(REJECTED_KEYS),
    sessions: () => (scope.has(SESSIONS) ? scope.get(SESSIONS) : undefined),
    proxied: openProxied(scope),
  });
  const resources = openResources(scope);
  const router = new AppRouter(app, { gate, bodyLimit: options.bodyLimit, redactor, resources });
  const streams = new LiveStreams({ most: options.maxStreams, clock });
  hooks.on("service:closing", () => streams.close());
  scope.value(H3_APP, app);
  scope.value(GATE, gate);
  scope.value(ROUTER, router);
  scope.value(STREAMS, streams);

  const store = scope.get(STORE);
  const parameters = scope.get(PARAMETERS);
  const jobs = scope.get(JOBS);
  const feed = new JobFeed({
    ...{ jobs, hooks, emissions: scope.get(EMISSIONS) },
    log: store.log("Run"),
    ...(store.isShared && { shared: shareEmissions(scope) }),
  });
  scope.value(JOB_FEED, feed);
  const agents = scope.get(AGENTS);
  const runner = scope.get(RUNNER);
  const cases = scope.get(CASES);
  const threads = new Threads({ agents, runner, jobs, cases, feed, store, clock });
  scope.value(THREADS, threads);
  const home = options.account?.workspace_id ?? "local";
  const seen = new Sights({ agents, runner, jobs, cases, feed, store, clock, home }).of;
  scope.value(SEEN, seen);
  const routes = machineRoutes({
    prefix: options.apiPrefix,
    agents,
    settings: scope.get(AGENT_SETTINGS),
    parameters,
    envelopes: new EnvelopeGate({ parameters, clients, clock }),
    runner,
    files: scope.get(FILES),
    jobs,
    cases,
    store,
    feed,
    threads,
    streams,
    tokens,
    access: scope.get(ACCESS),
    signing: scope.get(SIGNING_KEYS),
    people: scope.get(PEOPLE),
    revoked: scope.get(REVOKED_TOKENS),
    seen,
    audit: scope.get(AUDIT),
    attention: scope.get(ATTENTION),
    state: scope.get(SERVICE_STATE),
    backups: scope.get(BACKUPS),
    clock,
    hasControlSystem: options.account !== undefined,
    maxQueuedJobs: options.maxQueuedJobs,
    receivers: options.receivers,
  });
  for (const route of routes) router.add(route);
  return app;
}

/** People of a proxy, where one vouches for them. */
function openProxied(scope: Container): ProxiedPeople | undefined {
  const { signIn } = scope.get(OPTIONS).access;
  if (signIn?.kind !== "proxy") return undefined;
  const clock = scope.get(CLOCK);
  return new ProxiedPeople({
    assertions: new Assertions(signIn, clock),
    people: scope.get(PEOPLE),
    header: signIn.header,
    own: { clients: scope.get(CLIENTS), state: scope.get(SERVICE_STATE) },
    rejected: scope.get(REJECTED_KEYS),
    clock,
  });
}

/** What accepts access tokens of the identity provider, where people sign in at one. */
function openResources(scope: Container): ProtectedResources | undefined {
  const { access, publicUrl } = scope.get(OPTIONS);
  const { signIn } = access;
  if (signIn?.kind !== "oidc") return undefined;
  return new ProtectedResources({
    tokens: new AccessTokens(signIn, new IdentityProvider(signIn), scope.get(CLOCK)),
    people: scope.get(PEOPLE),
    clients: scope.get(CLIENTS),
    rejected: scope.get(REJECTED_KEYS),
    state: scope.get(SERVICE_STATE),
    publicUrl,
  });
}

function isUnanswered(error: HTTPError, event: H3Event): boolean {
  return error.status === 404 && !error.unhandled && !event.context.matchedRoute;
}

/** Clients of a protocol call by themselves what it has and this service has not: the error names it. */
function noRoute(allowed: readonly string[], called?: H3Event): ServiceError {
  if (allowed.length === 0) {
    const what = called && `${called.req.method} ${called.url.pathname} is not offered`;
    return new ServiceError("not_found", what ?? "Not found", {
      detail: "GET /openapi.json lists every path.",
    });
  }
  return new ServiceError("invalid_request", "Method not allowed on this path", {
    status: 405,
    detail: `Use ${allowed.join(" or ")}.`,
    headers: { allow: allowed.join(", ") },
  });
}

const YEAR = 31_536_000;

/** Only if there is something to do: a hook on every response costs a promise each. */
function observe(
  log: Logger,
  {
    options: { logLevel, publicUrl, trustProxy },
    clients,
    cors,
  }: { readonly options: ResolvedOptions; readonly clients: Clients; readonly cors: Cors | undefined },
) {
  const isPublic = publicUrl?.startsWith("https:") === true;
  const mayBeSecure = isPublic || trustProxy !== 0;
  const requests = logLevel === "debug" ? logRequests(log) : undefined;
  if (!mayBeSecure && !cors) return requests;
  return {
    ...requests,
    onResponse: (response: Response, event: H3Event) => {
      requests?.onResponse(response, event);
      cors?.mark(response, event);
      // Browsers that used https once then use only https (RFC 6797).
      if (isPublic || (mayBeSecure && clients.isSecure(event)))
        response.headers.set("strict-transport-security", `max-age=${YEAR}`);
    },
  };
}

function logRequests(log: Logger) {
  const begun = new WeakMap<H3Event, number>();
  return {
    onRequest: (event: H3Event) => void begun.set(event, performance.now()),
    onResponse: (response: Response, event: H3Event) => {
      const milliseconds = Math.round((performance.now() - (begun.get(event) ?? 0)) * 10) / 10;
      // Without the query: people put secrets there by mistake.
      const path = event.url.pathname;
      log.debug("request", { method: event.req.method, path, status: response.status, milliseconds });
    },
  };
}

/** Brings what steps emit to the streams of other instances, and here. */
function shareEmissions(scope: Container): SharedFeed {
  const instance = () => scope.get(RUNNER).instance;
  const { hints } = scope.get(STORE);
  const relay = new EmissionRelay({ hints, emissions: scope.get(EMISSIONS), instance });
  scope.get(HOOKS).on("service:closing", () => relay.close());
  return { instance, relay };
}
