import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Logger } from "../core/base/log.ts";
import type { Serve } from "../core/http/serve.ts";
import { shortInstance } from "../core/models/own-rows.ts";
import type { Service } from "../core/service/service.ts";
import { LOGGER, RUNNER } from "../core/service/tokens.ts";
import { banner } from "./banner.ts";
import type { CliContext } from "./context.ts";
import { guardProcess } from "./guard-process.ts";
import { ADDRESS_FILE, LAST_ADDRESS_FILE } from "./job/connection.ts";
import { listenForStop } from "./stop-signal.ts";

/** Longest time between the signal and the end, milliseconds: platforms kill a process 10 s after SIGTERM. */
const LONGEST_END = 9_500;

export interface RunOptions {
  readonly host?: string;
  readonly port?: number;
  readonly serve?: Serve;
  /** Whether to print where the time of the start went. @default false */
  readonly timing?: boolean;
  /** Waits for the end. @default listenForStop: a signal to this process */
  readonly listen?: typeof listenForStop;
  /** Called once the service listens; the result is called when it ends. @default prints a banner, writes the address */
  readonly announce?: (started: Started) => () => void;
}

/** A service that has started. */
export interface Started {
  readonly banner: string;
  /** Where commands on this machine find it. */
  readonly address: AddressFile;
  /** Its short name among several. */
  readonly instance: string | undefined;
}

interface AddressFile {
  readonly path: string;
  readonly text: string;
}

/** Runs a service until the process receives a stop signal, then closes it; resolves with the exit code. */
export async function runService(
  service: Service,
  { listen = listenForStop, announce, host, port, serve, timing = false }: RunOptions,
  context: CliContext,
): Promise<number> {
  const log = service.get(LOGGER);
  const announceHere = ({ banner, address }: Started) => {
    const remove = writeAddress(address, log);
    context.print(banner);
    return remove;
  };
  let hasFailed = false;
  let isEnding = false;
  const stop = listen((signal) => {
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
  const listening = service.listen({ host, port, serve });
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
  const address = {
    path: join(service.options.dataDir, ADDRESS_FILE),
    text: `${service.url}${service.options.apiPrefix}\n`,
  };
  const instance = shortInstance(service.get(RUNNER).instance);
  const retract = (announce ?? announceHere)({ banner: await banner(service, context), address, instance });
  if (timing) context.print((await import("./start-times.ts")).describeTimes());
  await stop.received;
  retract();
  return end();
}

/** Tells commands on this machine where the service is; the result leaves only where it was. */
export function writeAddress({ path, text }: AddressFile, log: Logger): () => void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    // A file that a killed process left behind keeps its mode.
    rmSync(path, { force: true });
    writeFileSync(path, text, { mode: 0o600 });
  } catch (error) {
    log.debug("the address file could not be written; commands on this machine need --url", { error });
  }
  return () => {
    try {
      renameSync(path, join(dirname(path), LAST_ADDRESS_FILE));
    } catch {
      // Commands find nobody there.
    }
  };
}

async function endWithin(service: Service, milliseconds: number): Promise<number> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((done) => {
    timer = setTimeout(done, milliseconds, "late");
  });
  const log = service.get(LOGGER);
  const result = await Promise.race([service.close(), late]).catch((error: unknown) => {
    log.error("the service did not close cleanly", { error });
    return "failed" as const;
  });
  clearTimeout(timer);
  if (result === undefined) return 0;
  if (result === "late") log.error("the service took too long to close and was terminated");
  return 1;
}
