import { DeployError } from "../../deploy/errors.ts";
import { proxyFor } from "../../deploy/proxy.ts";
import type { DeployTools } from "../../deploy/tools.ts";
import { isCloudError } from "./cloud-error.ts";

/** Failures of the way to a host, by the code that the system gives them. */
const WAYS: Readonly<Record<string, string>> = {
  ENOTFOUND: "its name was not found",
  EAI_AGAIN: "its name was not found: the name server gave no answer",
  ECONNREFUSED: "it refused the connection",
  ECONNRESET: "the connection was cut",
  EPIPE: "the connection was cut",
  UND_ERR_SOCKET: "the connection was cut",
  ETIMEDOUT: "it gave no answer in time",
  UND_ERR_CONNECT_TIMEOUT: "it gave no answer in time",
  UND_ERR_HEADERS_TIMEOUT: "it gave no answer in time",
  TimeoutError: "it gave no answer in time",
  EHOSTUNREACH: "there is no way to it",
  ENETUNREACH: "there is no network",
  SELF_SIGNED_CERT_IN_CHAIN: "its certificate is not trusted here, as behind an inspecting proxy",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its certificate is not trusted here, as behind an inspecting proxy",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "its certificate is not trusted here, as behind an inspecting proxy",
  ERR_PROXY: "the proxy did not let the connection through",
};
const UNTRUSTED = /CERT|VERIFY/;

/** The system's code for the failure of a connection, looked for through all causes; nothing for other errors. */
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

/** An error that says which host was not reached, why, and what to look at. */
export function unreachable(tools: Pick<DeployTools, "env">, url: string, cause: unknown): DeployError {
  const host = URL.canParse(url) ? new URL(url).host : url;
  const code = networkCode(cause);
  const proxy = URL.canParse(url) ? proxyFor(url, tools.env) : undefined;
  const through = proxy && `; it was asked through the proxy ${proxy.host}, from ${proxy.variable}`;
  return new DeployError(
    "unreachable",
    `${host} could not be reached: ${WAYS[code ?? ""] ?? "it gave no answer"}`,
    {
      detail: `${wordsOf(cause)}${through ?? ""}`,
      fix: fixFor(code, proxy),
      cause,
    },
  );
}

/**
 * A provider's failure as a person needs it: no answer becomes the host and what to look at, a refused login the command
 * that logs in again. Everything else stays as it is.
 */
export function explainFailure(
  tools: Pick<DeployTools, "env">,
  error: unknown,
  place: {
    readonly provider: string;
    readonly url: string;
    readonly login: string;
    isExpired?(code: string): boolean;
  },
): unknown {
  if (!isCloudError(error)) return error;
  if (error.status === 0) return unreachable(tools, place.url, error);
  if (error.status !== 401 && !place.isExpired?.(error.code)) return error;
  return new DeployError(
    "login_expired",
    `${place.provider} does not take the login: it has expired, or is not valid`,
    {
      detail: error.message,
      fix: place.login,
      cause: error,
    },
  );
}

function fixFor(code: string | undefined, proxy: ReturnType<typeof proxyFor>): string {
  if (code !== undefined && UNTRUSTED.test(code))
    return "Name the certificate of your proxy in NODE_EXTRA_CA_CERTS and run the command again";
  if (proxy)
    return `Check the network and the proxy in ${proxy.variable} (NO_PROXY names hosts that need none), and run the command again`;
  return "Check the network and name server; behind a proxy set HTTPS_PROXY. Then run the command again: it goes on";
}

function wordsOf(error: unknown): string {
  let words = error instanceof Error ? error.message : String(error);
  for (let at: unknown = error; at instanceof Error; at = at.cause) if (at.message !== "") words = at.message;
  return words;
}
