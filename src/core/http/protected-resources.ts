import * as v from "valibot";
import type { AccessTokens } from "../access/access-tokens.ts";
import type { People } from "../access/people.ts";
import type { Caller } from "../audit/caller.ts";
import type { RejectedKeys } from "../audit/rejected-keys.ts";
import { isServiceError, ServiceError } from "../base/errors.ts";
import { isLoopback } from "../base/loopback.ts";
import type { Clients } from "./clients.ts";
import { defineRoute, type HttpEvent, type RouteDefinition } from "./route.ts";
import type { ServiceState } from "./service-state.ts";

/** What a client must know to get an access token (RFC 9728). */
const MetadataSchema = v.object({
  resource: v.string(),
  authorization_servers: v.array(v.string()),
  bearer_methods_supported: v.array(v.string()),
  resource_name: v.string(),
});

export interface ProtectedResourcesParts {
  readonly tokens: Pick<AccessTokens, "issuer" | "verify">;
  readonly people: Pick<People, "enter">;
  readonly clients: Clients;
  readonly rejected: Pick<RejectedKeys, "add">;
  readonly state: Pick<ServiceState, "port">;
  readonly publicUrl: string | undefined;
}

/** Routes that accept access tokens of the identity provider, each one only those that are for its own address. */
export class ProtectedResources {
  readonly #parts: ProtectedResourcesParts;

  constructor(parts: ProtectedResourcesParts) {
    this.#parts = parts;
  }

  /** The access token of a request, which is not verified: no key of the service looks like one. */
  find(event: HttpEvent): string | undefined {
    if (event.req.headers.has("x-api-key")) return undefined;
    const header = event.req.headers.get("authorization") ?? "";
    return /^bearer +(eyJ[\w-]*\.[\w-]+\.[\w-]+)$/i.exec(header)?.[1];
  }

  /** The caller of a request with an access token for the route at a path. */
  async enter(event: HttpEvent, token: string, path: string): Promise<Caller> {
    const { tokens, people, clients, rejected } = this.#parts;
    const address = clients.address(event);
    const base = this.#base(event);
    if (base === undefined) throw unknownAddress("unauthorized");
    try {
      const { person, until } = await tokens.verify(token, base + path);
      return { ...people.enter(person), address, until };
    } catch (error) {
      if (isServiceError(error) && error.type === "unauthorized") rejected.add(address, false);
      throw error;
    }
  }

  /** The same refusal, with where its receiver learns how to get an access token. */
  challenge(error: unknown, event: HttpEvent, path: string): unknown {
    const base = this.#base(event);
    if (!isServiceError(error) || error.type !== "unauthorized" || base === undefined) return error;
    const { type, message, detail, status, headers, cause } = error;
    const asked =
      headers["www-authenticate"] ?? 'Bearer realm="agent-control-service", error="invalid_token"';
    return new ServiceError(type, message, {
      ...{ status, cause },
      ...(detail !== undefined && { detail }),
      headers: { ...headers, "www-authenticate": `${asked}, resource_metadata="${metadataAt(base, path)}"` },
    });
  }

  /** What the route at a path says of itself. */
  metadataRoute({ path, tag }: Pick<RouteDefinition, "path" | "tag">): RouteDefinition {
    return defineRoute({
      method: "GET",
      path: WELL_KNOWN + path,
      auth: "none",
      needs: "nothing",
      summary: "Who issues access tokens",
      description: `For clients of ${path} that people use: protected resource metadata (RFC 9728).`,
      tag,
      responses: { 200: { description: "The metadata", schema: MetadataSchema } },
      handler: ({ event }) => {
        const base = this.#base(event);
        if (base === undefined) throw unknownAddress("not_found");
        return {
          resource: base + path,
          authorization_servers: [this.#parts.tokens.issuer],
          bearer_methods_supported: ["header"],
          resource_name: "agent-control-service",
        };
      },
    });
  }

  /**
   * The service's address for clients. The header `Host` counts on this machine only: elsewhere, a token for another
   * service of the same provider would be accepted by naming that service in it.
   */
  #base(event: HttpEvent): string | undefined {
    const { publicUrl, state } = this.#parts;
    if (publicUrl !== undefined) return publicUrl.replace(/\/+$/, "");
    const asked = `http://${event.req.headers.get("host")}`;
    if (!URL.canParse(asked)) return undefined;
    const { hostname, port, origin } = new URL(asked);
    return isLoopback(hostname) && Number(port || 80) === state.port ? origin : undefined;
  }
}

const WELL_KNOWN = "/.well-known/oauth-protected-resource";

/** Before the path of the resource, also where the service has a path itself. */
function metadataAt(base: string, path: string): string {
  const { origin, pathname } = new URL(base + path);
  return origin + WELL_KNOWN + pathname;
}

function unknownAddress(type: "unauthorized" | "not_found"): ServiceError {
  return new ServiceError(type, "The service does not know for which address access tokens are", {
    detail: "Set its option publicUrl, or SERVICE_PUBLIC_URL.",
  });
}
