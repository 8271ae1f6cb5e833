import type { H3Event } from "h3";
import * as v from "valibot";
import { type Caller, nameOf } from "../audit/caller.ts";
import { isServiceError } from "../base/errors.ts";
import type { Redactor } from "../base/redactor.ts";
import { type Role, rolesWith } from "../models/access.ts";
import { createAnswerer, withSecurityHeaders } from "./answer.ts";
import { check, invalid } from "./check.ts";
import type { Gate } from "./gate.ts";
import { readJson } from "./json-body.ts";
import { isMultipart } from "./multipart.ts";
import type { ProtectedResources } from "./protected-resources.ts";
import { readQuery } from "./query.ts";
import { receiveBody } from "./request-body.ts";
import { assertMayCall } from "./rights.ts";
import type { AddedRoute, RouteInput } from "./route.ts";
import { noLongerValid, untilOver } from "./until-over.ts";

export type AnyInput = RouteInput<unknown, unknown, unknown>;
/** A route without its specific types, as the router uses it. */
export type AnyRoute = Omit<AddedRoute, "handler"> & { handler(input: AnyInput): unknown };

export interface HandlerParts {
  readonly gate: Gate;
  /** Largest body, bytes. */
  readonly bodyLimit: number;
  readonly redactor: Redactor;
  /** Where an identity provider issues access tokens. */
  readonly resources?: ProtectedResources | undefined;
}

/** Bytes that anybody may send to a route without a key, which are held in memory, unless the route has a limit of its own. */
const OPEN_BODY = 100_000;

/**
 * Fuses a route's key check, body, validation, handler and response into one function: each separate
 * middleware would cost as much as the whole route. The order is the same for every route, and no route can
 * skip a part.
 */
export function createHandler(
  route: AnyRoute,
  { gate, bodyLimit, redactor, resources }: HandlerParts,
): (event: H3Event) => unknown {
  const { params, token } = route;
  const roles: ReadonlySet<Role> = new Set(rolesWith(route.needs));
  const isOpen = route.hidden === true;
  const query = route.query ?? (isOpen ? undefined : NO_QUERY);
  const body = route.body;
  const refusesBody = !body && !isOpen && !route.rawBody;
  const own = route.bodyLimit ?? (route.auth === "none" ? OPEN_BODY : bodyLimit);
  const limit = Math.min(own, bodyLimit);
  const bodyRequired = body !== undefined && !v.is(body, undefined);
  const toAnswer = createAnswerer(route, redactor);

  const run = (event: H3Event, caller: Caller, bytes: Buffer | undefined): Response | Promise<Response> => {
    const type = event.req.headers.get("content-type");
    if (refusesBody && bytes) assertNoMembers(bytes);
    const answer = route.handler({
      query: query && readChecked(query, event.url),
      body: body && check(body, readJson(bytes, type, bodyRequired), "body"),
      params: params && check(params, decode(event.context.params), "path"),
      event,
      actor: nameOf(caller),
      caller,
    });
    const { over } = caller;
    if (over === undefined) return answer instanceof Promise ? answer.then(toAnswer) : toAnswer(answer);
    // Only what a handler makes itself may take long to be sent.
    const send = (value: unknown): Response =>
      value instanceof Response ? untilOver(toAnswer(value), over) : toAnswer(value);
    if (!(answer instanceof Promise)) return send(answer);
    // Routes for people also end sessions and keys: the caller's own, too.
    if (route.auth === "session") return answer.then(send);
    return answer.then((value) => {
      if (over.aborted) throw noLongerValid();
      return send(value);
    });
  };

  const proceed = (event: H3Event, caller: Caller | Promise<Caller>): Response | Promise<Response> => {
    if (caller instanceof Promise) return caller.then((one) => proceed(event, one));
    // The common case first: who sees everything, and has the right.
    if (caller.sight !== undefined || caller.role === undefined || !roles.has(caller.role))
      assertMayCall(caller, route);
    const streams = route.streamsBody === "multipart" ? isMultipart(event) : route.streamsBody;
    if (streams) return run(event, caller, undefined);
    const received = receiveBody(event, limit);
    return received ? received.then((bytes) => run(event, caller, bytes)) : run(event, caller, undefined);
  };

  if (token) {
    return (event) => {
      const jobId = decode(event.context.params)[token.job] ?? "";
      return proceed(event, gate.enter(event, route.auth, { scope: token.scope, jobId }));
    };
  }
  if (route.accessTokens && resources) {
    return async (event) => {
      let caller: Caller;
      try {
        const sent = resources.find(event);
        caller =
          sent === undefined
            ? await gate.enter(event, route.auth)
            : await resources.enter(event, sent, route.path);
      } catch (error) {
        throw resources.challenge(error, event, route.path);
      }
      return proceed(event, caller);
    };
  }
  if (route.auth !== "session") return (event) => proceed(event, gate.enter(event, route.auth));

  return async (event) => {
    let caller: Caller;
    try {
      caller = await gate.enter(event, "session");
    } catch (error) {
      const page = isServiceError(error) ? await gate.challenge(event, error) : undefined;
      if (page) return withSecurityHeaders(page);
      throw error;
    }
    return proceed(event, caller);
  };
}

const NO_QUERY = v.object({});

/** Most requests have no query, and some schemas accept none. */
function readChecked(schema: v.GenericSchema, url: URL): unknown {
  if (schema === NO_QUERY) {
    if (url.search !== "") check(schema, readQuery(url), "query");
    return undefined;
  }
  return check(schema, readQuery(url), "query");
}

/** What a client says to a route that reads no body would be dropped. Some clients always send an empty object. */
function assertNoMembers(bytes: Buffer): void {
  if (/^\s*(?:\{\s*\}|null)?\s*$/.test(bytes.toString("latin1", 0, 100)) && bytes.length <= 100) return;
  throw invalid("body", "this route accepts no body: send none");
}

/** Parameters arrive percent-encoded; h3 has refused paths whose encoding is broken. */
function decode(params: Record<string, string> | undefined): Record<string, string> {
  const decoded: Record<string, string> = {};
  for (const name in params) {
    const value = params[name] ?? "";
    decoded[name] = value.includes("%") ? decodeURIComponent(value) : value;
  }
  return decoded;
}
