import type { H3Event } from "h3";
import * as v from "valibot";
import { isServiceError } from "../errors.ts";
import { toAnswer } from "./answer.ts";
import { check } from "./check.ts";
import type { Gate } from "./gate.ts";
import { readJsonBody } from "./json-body.ts";
import { readQuery } from "./query.ts";
import type { RouteDefinition, RouteInput } from "./route.ts";

export type AnyInput = RouteInput<unknown, unknown, unknown>;
/** A route with its types forgotten: what the router works with. */
export type AnyRoute = Omit<RouteDefinition, "handler"> & { handler(input: AnyInput): unknown };

export interface HandlerParts {
  readonly gate: Gate;
  /** Largest body, bytes. */
  readonly bodyLimit: number;
}

/**
 * Fuses a route's key check, validation and handler into one function: each middleware between them would
 * cost as much as the whole route does.
 */
export function createHandler(
  route: AnyRoute,
  { gate, bodyLimit }: HandlerParts,
): (event: H3Event) => unknown {
  const { params, query, body, status } = route;
  const bodyRequired = body !== undefined && !v.is(body, undefined);

  const run = (event: H3Event, actor: string, value: unknown): Response | Promise<Response> => {
    const answer = route.handler({
      params: params && check(params, decode(event.context.params), "path"),
      query: query && check(query, readQuery(event.url.searchParams), "query"),
      body: value,
      event,
      actor,
    });
    return answer instanceof Promise
      ? answer.then((settled) => toAnswer(settled, status))
      : toAnswer(answer, status);
  };

  const runWithBody = async (event: H3Event, actor: string, schema: v.GenericSchema): Promise<Response> =>
    run(event, actor, check(schema, await readJsonBody(event, bodyLimit, bodyRequired), "body"));

  const proceed = (event: H3Event, actor: string): Response | Promise<Response> =>
    body ? runWithBody(event, actor, body) : run(event, actor, undefined);

  if (route.auth !== "session") return (event) => proceed(event, gate.enter(event, route.auth) as string);

  return async (event) => {
    let actor: string;
    try {
      actor = await gate.enter(event, "session");
    } catch (error) {
      const page = isServiceError(error) ? await gate.challenge(event, error) : undefined;
      if (page) return page;
      throw error;
    }
    return proceed(event, actor);
  };
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
