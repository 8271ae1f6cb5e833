import { rmSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Serve } from "../core/http/serve.ts";
import type { Service } from "../core/service/service.ts";
import { LOGGER } from "../core/service/tokens.ts";
import { banner } from "./banner.ts";
import type { CliContext } from "./context.ts";
import { guardProcess } from "./guard-process.ts";
import { ADDRESS_FILE } from "./job/connection.ts";
import { listenForStop } from "./stop-signal.ts";

/** Longest time between the signal and the end, milliseconds: platforms kill a process 10 s after SIGTERM. */
const LONGEST_END = 9_500;

export interface RunOptions {
  readonly host?: string;
  readonly port?: number;
  readonly serve?: Serve;
}

/** Runs a service until the process receives a stop signal, then closes it; resolves with the exit code. */
export async function runService(service: Service, at: RunOptions, context: CliContext): Promise<number> {
  const log = service.get(LOGGER);
  let hasFailed = false;
  let isEnding = false;
  const stop = listenForStop((signal) => {
    isEnding = true;
    log.info("ending", { signal });
  });
  const unguard = guardProcess(log, {
    isEnding: () => isEnding,
    fail: () => {
      hasFailed = true;
      stop.end();
    },
  });
  const end = async (): Promise<number> => {
    const code = await endWithin(service, LONGEST_END);
    unguard();
    return hasFailed ? 1 : code;
  };
  const listening = service.listen(at);
  try {
    await Promise.race([listening, stop.received]);
  } catch (error) {
    await service.close().catch(() => {});
    unguard();
    throw error;
  }
  // A stop signal before it listens cancels the start.
  if (service.url === undefined) {
    listening.catch((error: unknown) => log.debug("the start was cancelled", { error }));
    return end();
  }
  const address = join(service.options.dataDir, ADDRESS_FILE);
  try {
    // A file that a killed process left behind keeps its mode.
    rmSync(address, { force: true });
    writeFileSync(address, `${service.url}${service.options.apiPrefix}\n`, { mode: 0o600 });
  } catch (error) {
    log.debug("the address file could not be written; commands on this machine need --url", { error });
  }
  context.print(await banner(service, context));
  await stop.received;
  await rm(address, { force: true }).catch(() => {});
  return end();
}

async function endWithin(service: Service, milliseconds: number): Promise<number> {
  const late = new Promise<"late">((done) => setTimeout(done, milliseconds, "late").unref());
  const log = service.get(LOGGER);
  const result = await Promise.race([service.close(), late]).catch((error: unknown) => {
    log.error("the service did not close cleanly", { error });
    return "failed" as const;
  });
  if (result === undefined) return 0;
  if (result === "late") log.error("the service took too long to close and was terminated");
  return 1;
}
