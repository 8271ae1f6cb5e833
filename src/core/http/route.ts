import type { StandardSchemaV1 } from "@standard-schema/spec";
import type * as v from "valibot";
import type { Caller } from "../audit/caller.ts";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import type { Need } from "../models/access.ts";
import type { ErrorForm } from "./error-form.ts";
import type { TokenRule } from "./job-tokens.ts";

/** A synchronous schema of valibot, zod, ArkType, or another library with Standard Schema. */
export type RouteSchema = StandardSchemaV1;
/** What a schema of a route gives its handler; `undefined` where there is none. */
export type RouteValue<S> = S extends RouteSchema ? StandardSchemaV1.InferOutput<S> : undefined;

/**
 * How a caller of a route shows who it is: not at all, with a key of the service, or with a key or a session. A key is sent
 * as `X-API-Key` or as `Authorization: Bearer`.
 */
export type RouteAuth = "none" | "key" | "session";

/** One response of a route, for the documentation. */
export interface RouteResponse<S extends RouteSchema = RouteSchema> {
  readonly description: string;
  /** Schema of the JSON body; absent for other content. */
  readonly schema?: S;
  /** @default "application/json" */
  readonly contentType?: string;
}

/** Where a request comes from, as Node knows it. */
export interface Connection {
  readonly remoteAddress?: string | undefined;
}

/** A request in progress. */
export interface HttpEvent {
  /** The request. Its body is unread where the route is hidden or has `rawBody`. */
  readonly req: Request;
  /** Its address, parsed. */
  readonly url: URL;
  /** Headers of the response if the handler returns a plain value. */
  readonly res: { readonly headers: Headers };
  /** Its connection; absent for a request without a socket. */
  readonly runtime?: { readonly node?: { readonly req: { readonly socket: Connection } } };
}

/** Argument of a handler: validated values, and the request for what has no schema. */
export interface RouteInput<P, Q, B> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly event: HttpEvent;
  /** The caller, for the timeline: `api-key`, or the session. */
  readonly actor: string;
  /** The caller, with the address: recorded with changes, in the audit log. */
  readonly caller: Caller;
}

/**
 * Declaration of a route: determines the handler's validated input, the OpenAPI entry, and the `Allow` header
 * of the 405 response.
 */
export interface RouteDefinition<
  P extends RouteSchema | undefined = RouteSchema | undefined,
  Q extends RouteSchema | undefined = RouteSchema | undefined,
  B extends RouteSchema | undefined = RouteSchema | undefined,
  R extends RouteSchema = RouteSchema,
> {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With parameters in braces, such as `/jobs/{id}`. */
  readonly path: string;
  readonly auth: RouteAuth;
  /**
   * The right that the caller must have: `view` to read, `answer` for questions, `start` for jobs and messages, `operate`
   * to change what runs, `manage` for secrets, access and what cannot be undone. `nothing` where anybody may call it.
   */
  readonly needs: Need;
  /**
   * The handler shows and changes only what `caller.sight` allows, so that callers who see a part may call it; with
   * `"agents"`, only those who see all jobs of some agents. Others are refused to them. @default false
   */
  readonly narrows?: boolean | "agents";
  /** Accepts tokens of one job, too, from pages of allowed origins as well; only with `auth: "key"`. @default none */
  readonly token?: TokenRule;
  /**
   * Accepts access tokens that the identity provider of `access.signIn` has issued for the address of this route, too: of
   * programs that people use. Only with `auth: "key"`, and a path without parameters. @default false
   */
  readonly accessTokens?: boolean;
  readonly summary: string;
  readonly description?: string;
  readonly tag: string;
  readonly params?: P;
  /** Its members are the only ones that are accepted, in lists of objects and inside of them too, unless it is loose. */
  readonly query?: Q;
  /** Like `query`. */
  readonly body?: B;
  /** The handler reads the body itself, from `event.req`; without this and without `body`, a body is refused. @default false */
  readonly rawBody?: boolean;
  /**
   * The handler reads the body from the request while it arrives: nothing of it is held, and no limit applies but the
   * handler's. With `multipart`, only forms with files. @default false
   */
  readonly streamsBody?: boolean | "multipart";
  /** Largest body in bytes; never more than the service's. @default the service's `bodyLimit`; 100,000 with auth `none` */
  readonly bodyLimit?: number;
  /** How its clients read errors. @default an ErrorResponse */
  readonly errors?: ErrorForm;
  /** Responses by status; error responses that every route can return are added. */
  readonly responses: Readonly<Record<number, RouteResponse<R>>>;
  /** Status of the response if the handler returns a plain value. @default 200 */
  readonly status?: number;
  /** The response contains only stored data, which was redacted when it was written: skips another scan. */
  readonly stored?: boolean;
  /** Excluded from the document: pages for people. */
  readonly hidden?: boolean;
  /**
   * Called once the key is checked and the body is available. A plain value is sent as JSON, with known
   * secrets redacted where its schema allows free text; a `Response` unchanged. Failures are thrown.
   */
  handler(input: RouteInput<RouteValue<P>, RouteValue<Q>, RouteValue<B>>): unknown;
}

/** A route that has been added: its schemas are valibot's, also where it was declared with those of another library. */
export type AddedRoute = RouteDefinition<
  v.GenericSchema | undefined,
  v.GenericSchema | undefined,
  v.GenericSchema | undefined,
  v.GenericSchema
>;

const NAMES: NamesOf<RouteDefinition> = {
  ...{ method: true, path: true, auth: true, needs: true, narrows: true, token: true, accessTokens: true },
  ...{ summary: true, description: true, tag: true },
  ...{ params: true, query: true, body: true, rawBody: true, streamsBody: true, bodyLimit: true },
  ...{ responses: true, status: true, errors: true, stored: true, hidden: true, handler: true },
};
const RESPONSE_NAMES: NamesOf<RouteResponse> = { description: true, schema: true, contentType: true };
const TOKEN_NAMES: NamesOf<TokenRule> = { scope: true, job: true };

/** Defines a route with inferred types. */
export function defineRoute<
  P extends RouteSchema | undefined = undefined,
  Q extends RouteSchema | undefined = undefined,
  B extends RouteSchema | undefined = undefined,
>(route: RouteDefinition<P, Q, B>): RouteDefinition {
  const what = `defineRoute: ${route.method} ${route.path}`;
  refuseUnknown(route, NAMES, what);
  if (route.token) refuseUnknown(route.token, TOKEN_NAMES, `${what}: token`);
  for (const [status, response] of Object.entries(route.responses))
    refuseUnknown(response, RESPONSE_NAMES, `${what}: response ${status}`);
  return route as unknown as RouteDefinition;
}

/** Adds routes; third parties use it too. Paths are complete: the API prefix is not added. */
export interface Router {
  add(route: RouteDefinition): void;
  /** All routes so far. */
  readonly routes: readonly AddedRoute[];
}
