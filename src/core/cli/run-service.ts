import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Serve } from "../http/serve.ts";
import type { Service } from "../service.ts";
import { LOGGER } from "../tokens.ts";
import { banner } from "./banner.ts";
import type { CliContext } from "./context.ts";
import { CliError } from "./errors.ts";
import { ADDRESS_FILE } from "./job/connection.ts";
import { listenForStop } from "./stop-signal.ts";

/** Longest time between the signal and the end, milliseconds: platforms kill a process 10 s after SIGTERM. */
const LONGEST_END = 9_500;

export interface RunOptions {
  readonly host?: string;
  readonly port?: number;
  readonly serve?: Serve;
}

/** Lets a service listen until the process is told to end, then closes it; resolves with the exit code. */
export async function runService(service: Service, at: RunOptions, context: CliContext): Promise<number> {
  const log = service.get(LOGGER);
  // A promise that an agent forgot must not end the other agents' jobs.
  process.on("unhandledRejection", (error) => log.error("a rejected promise was not handled", { error }));
  const stop = listenForStop((signal) => log.info("ending", { signal }));
  try {
    await service.listen(at);
  } catch (error) {
    await service.close().catch(() => {});
    throw explain(error, at.port ?? service.options.port, at.host ?? service.options.host);
  }
  const address = join(service.options.dataDir, ADDRESS_FILE);
  await writeFile(address, `${service.url}${service.options.apiPrefix}\n`);
  context.print(banner(service, context.cwd));
  await stop.received;
  await rm(address, { force: true });
  return endWithin(service, LONGEST_END);
}

async function endWithin(service: Service, milliseconds: number): Promise<number> {
  const late = new Promise<"late">((done) => setTimeout(done, milliseconds, "late").unref());
  const log = service.get(LOGGER);
  const result = await Promise.race([service.close(), late]).catch((error: unknown) => {
    log.error("the service did not close cleanly", { error });
    return "failed" as const;
  });
  if (result === undefined) return 0;
  if (result === "late") log.error("the service took too long to close and was ended");
  return 1;
}

function explain(error: unknown, port: number, host: string): unknown {
  const code = (error as NodeJS.ErrnoException).code ?? "";
  if (code === "EADDRINUSE" || (error as Error).name === "GetPortError") {
    return new CliError(`Port ${port} on ${host} is taken by another program`, {
      detail: `Choose another one: --port ${port + 1}, or SERVICE_PORT=${port + 1}. With --port 0 a free one is found.`,
      cause: error,
    });
  }
  if (code === "EACCES")
    return new CliError(`Port ${port} needs more rights`, { detail: "Choose one above 1023." });
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
    return new CliError(`This machine has no address "${host}"`, {
      detail: "Use 127.0.0.1 for this machine only, or 0.0.0.0 for all its addresses.",
      cause: error,
    });
  }
  return error;
}
