import { innermostMessage } from "../core/base/error-text.ts";
import { DeployError, isDeployError } from "./errors.ts";
import { proxyFor } from "./proxy.ts";
import type { DeployTools } from "./tools.ts";

/** Failures of the connection to a host, by system error code. */
const WAYS: Readonly<Record<string, string>> = {
  ENOTFOUND: "its name was not found",
  EAI_AGAIN: "its name was not found: the DNS server did not respond",
  ECONNREFUSED: "it refused the connection",
  ECONNRESET: "the connection was cut",
  EPIPE: "the connection was cut",
  UND_ERR_SOCKET: "the connection was cut",
  ETIMEDOUT: "it did not respond in time",
  UND_ERR_CONNECT_TIMEOUT: "it did not respond in time",
  UND_ERR_HEADERS_TIMEOUT: "it did not respond in time",
  TimeoutError: "it did not respond in time",
  EHOSTUNREACH: "there is no route to it",
  ENETUNREACH: "there is no network",
  SELF_SIGNED_CERT_IN_CHAIN: "its certificate is not trusted here (possibly an inspecting proxy)",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its certificate is not trusted here (possibly an inspecting proxy)",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "its certificate is not trusted here (possibly an inspecting proxy)",
  ERR_PROXY: "the proxy did not let the connection through",
};
const UNTRUSTED = /CERT|VERIFY/;

/**
 * The system's error code of a connection failure, searched through all causes; undefined for other errors.
 */
export function networkCode(error: unknown): string | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { code, name, errors } = at as NodeJS.ErrnoException & { errors?: readonly unknown[] };
    if (code !== undefined && code in WAYS) return code;
    if (name === "TimeoutError") return name;
    const inner = errors?.map(networkCode).find((found) => found !== undefined);
    if (inner !== undefined) return inner;
  }
  return undefined;
}

/** An error that says which host could not be reached, why, and what to check. */
export function unreachable(tools: Pick<DeployTools, "env">, url: string, cause: unknown): DeployError {
  const host = URL.canParse(url) ? new URL(url).host : url;
  const code = networkCode(cause);
  const proxy = URL.canParse(url) ? proxyFor(url, tools.env) : undefined;
  const through = proxy && `; it was called through the proxy ${proxy.host}, from ${proxy.variable}`;
  return new DeployError(
    "unreachable",
    `${host} could not be reached: ${WAYS[code ?? ""] ?? "it did not respond"}`,
    {
      detail: `${innermostMessage(cause)}${through ?? ""}`,
      fix: fixFor(code, proxy),
      cause,
    },
  );
}

/**
 * Sends a request and reads its response. A host that cannot be reached, or cuts the connection, becomes the error that
 * names it; what `read` throws is unchanged.
 */
export async function reach<T>(
  tools: Pick<DeployTools, "fetch" | "signal" | "env">,
  url: string,
  init: RequestInit,
  read: (response: Response) => Promise<T> | T,
): Promise<T> {
  const told = (error: unknown): DeployError => {
    if (tools.signal.aborted) throw tools.signal.reason;
    // Such as a proxy's variable that is not a URL.
    return isDeployError(error) ? error : unreachable(tools, url, error);
  };
  const response = await tools.fetch(url, init).catch((error: unknown) => {
    throw told(error);
  });
  try {
    return await read(response);
  } catch (error) {
    throw networkCode(error) === undefined ? error : told(error);
  }
}

function fixFor(code: string | undefined, proxy: ReturnType<typeof proxyFor>): string {
  if (code !== undefined && UNTRUSTED.test(code))
    return "Set NODE_EXTRA_CA_CERTS to your proxy's certificate and run the command again";
  if (proxy)
    return `Check the network and the proxy in ${proxy.variable} (NO_PROXY names hosts that need none), and run the command again`;
  return "Check the network and the DNS server; behind a proxy set HTTPS_PROXY. Then run the command again: it continues";
}
