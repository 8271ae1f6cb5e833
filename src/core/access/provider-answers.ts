import { ServiceError } from "../base/errors.ts";

/** Codes of errors of the library that say that there was no response. */
const UNANSWERED = new Set(["OAUTH_TIMEOUT", "OAUTH_ABORT"]);

/** What a provider says of the service, and not of a person. */
const OF_SERVICE = new Set(["invalid_client", "unauthorized_client", "incorrect_client_credentials"]);

/**
 * Throws `unauthorized` where the provider, or a check of what it sent, refuses; `unavailable` where it cannot be asked, or
 * does not know the service: a client secret that changes there first signs nobody out.
 */
export async function orRefuse<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const {
      code = "",
      message,
      error: reason,
    } = error as {
      readonly code?: string;
      readonly message: string;
      readonly error?: string;
    };
    if (OF_SERVICE.has(reason ?? "") || hasChallenge(error)) throw unknownHere(error);
    const isAnswered = code.startsWith("OAUTH_") && !UNANSWERED.has(code) && !hasFailed(error);
    if (isAnswered) throw refused(reason === undefined ? message : `${message} (${reason})`);
    throw unreachable(error);
  }
}

/** Whether the connection or the provider failed: the library wraps what `fetch` throws, and responses that it cannot read. */
function hasFailed(error: unknown): boolean {
  for (let one = error; typeof one === "object" && one !== null; one = (one as { cause?: unknown }).cause) {
    if (one instanceof TypeError && /fetch/.test(one.message)) return true;
    const { status } = one as { readonly status?: unknown };
    if (typeof status === "number" && (status >= 500 || status === 429)) return true;
  }
  return false;
}

/** Whether the provider asks for credentials of the service: those of a person are bearer tokens. */
function hasChallenge(error: unknown): boolean {
  const { code, cause } = error as { readonly code?: string; readonly cause?: unknown };
  return (
    code === "OAUTH_WWW_AUTHENTICATE_CHALLENGE" &&
    Array.isArray(cause) &&
    cause.every(
      ({ scheme }: { readonly scheme?: string }) => scheme !== undefined && !/^(bearer|dpop)$/i.test(scheme),
    )
  );
}

/** The provider does not say who somebody is. */
export function refused(reason: string): ServiceError {
  return new ServiceError("unauthorized", "The identity provider does not vouch for you", {
    detail: `Sign in again. It was refused: ${reason}.`,
  });
}

/** The provider does not accept the service's own credentials. */
function unknownHere(cause: unknown): ServiceError {
  return new ServiceError("unavailable", "The identity provider does not accept this service", {
    cause,
    detail: "An administrator must compare the client's id and secret with those at the provider.",
    headers: { "retry-after": "5" },
  });
}

/** The provider does not answer. */
export function unreachable(cause: unknown): ServiceError {
  return new ServiceError("unavailable", "The identity provider cannot be asked who you are", {
    cause,
    detail: "Try again later; the service's log says why.",
    headers: { "retry-after": "5" },
  });
}
