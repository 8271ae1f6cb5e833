import { OptionsError } from "../base/check-options.ts";

/** Says what to do if a server cannot listen; other errors are unchanged. */
export function explainListenError(error: unknown, host: string, port: number): unknown {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  if (code === "EADDRINUSE") {
    return new OptionsError(
      `Port ${port} on ${host} is in use: stop the program that listens there, or choose another port (option port, SERVICE_PORT)`,
      { cause: error },
    );
  }
  if (code === "EACCES") {
    return new OptionsError(`This user may not listen on port ${port}: choose a port of 1024 or higher`, {
      cause: error,
    });
  }
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
    return new OptionsError(`"${host}" is not an address of this machine (option host, SERVICE_HOST)`, {
      cause: error,
    });
  }
  return error;
}
