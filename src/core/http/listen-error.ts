import { OptionsError } from "../base/check-options.ts";

/** Says what to do where a server cannot listen; other errors stay as they are. */
export function explainListenError(error: unknown, host: string, port: number): unknown {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  if (code === "EADDRINUSE") {
    return new OptionsError(
      `Port ${port} on ${host} is in use: end what listens there, or choose another port (option port, SERVICE_PORT)`,
      { cause: error },
    );
  }
  if (code === "EACCES") {
    return new OptionsError(`This user may not listen on port ${port}: choose one from 1024 on`, {
      cause: error,
    });
  }
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
    return new OptionsError(
      `This machine has no address "${host}" to listen on (option host, SERVICE_HOST)`,
      {
        cause: error,
      },
    );
  }
  return error;
}
