import { randomUUID } from "node:crypto";
import { Redactor } from "../../core/base/redactor.ts";
import type { DeployConfig } from "../config.ts";
import { createDeployTools } from "../create-tools.ts";
import type { Emit } from "../events.ts";
import { readSettings } from "../file/deploy-file.ts";
import { refuseLinks, USED_ENTRIES } from "../files.ts";
import { createLogFile, type LogFile } from "../log-file.ts";
import { resolveName, toServiceName } from "../name.ts";
import { createTimeLimits, type TimeLimits } from "../time-limits.ts";
import type { DeployTools } from "../tools.ts";
import { readTrustedFiles, type TrustedFiles } from "./trusted-files.ts";

export interface LocalOptions {
  readonly name: string | undefined;
  readonly env: string;
  readonly port: number;
  readonly generateApiKey: boolean;
  readonly generateRsa: boolean;
  /** Seconds to wait for the start. */
  readonly timeout: number;
  readonly filesOnly: boolean;
  readonly sourceDir: string;
  readonly controllerFile: string | undefined;
  /** @default that of `deploy.yaml`, else the generated one */
  readonly dockerfile?: string | undefined;
  /** Image that the generated one starts from. @default that of `deploy.yaml`, else the slim one of the project's Node */
  readonly baseImage?: string | undefined;
  /** Debian packages of the image. @default those of `deploy.yaml` */
  readonly apt?: string | undefined;
  readonly overwriteFiles: boolean;
  /** Whether open jobs may be lost with the data that `localStop` removes. */
  readonly acceptDataLoss: boolean;
  /** Containers of the service that share a database, behind a proxy. @default what was started last, else one without a database */
  readonly instances?: number | undefined;
  /** Image of the database. @default that of the last start, else `postgres:17` */
  readonly postgresImage?: string | undefined;
  /** Uses a compose file and keys that are not known to be this user's, and remembers them. @default false */
  readonly trustFiles?: boolean;
}

/** A test of a service in containers on this machine. */
export interface LocalRun {
  readonly options: LocalOptions;
  readonly cwd: string;
  readonly name: string;
  readonly serviceName: string;
  /** Name of the compose project. */
  readonly project: string;
  readonly image: string;
  readonly url: string;
  readonly config: DeployConfig;
  readonly tools: DeployTools;
  readonly limits: TimeLimits;
  readonly redactor: Redactor;
  readonly log: LogFile;
  readonly emit: Emit;
  readonly trusted: TrustedFiles;
  /** Asks the person at the terminal; missing if there is none. */
  readonly ask?: ((question: string) => Promise<boolean>) | undefined;
}

export interface OpenLocal {
  readonly options: LocalOptions;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly emit: Emit;
  /** Asks the person at the terminal even if `--yes` is set; missing if there is none. */
  readonly ask?: ((question: string) => Promise<boolean>) | undefined;
  readonly signal?: AbortSignal;
  readonly redactor?: Redactor;
  readonly now?: () => Date;
}

/** Resolves names and reads the configuration; starts nothing. */
export async function openLocal(open: OpenLocal): Promise<LocalRun> {
  const { cwd, env, now = () => new Date(), redactor = new Redactor() } = open;
  const settings = await readSettings(cwd, open.options.env, undefined, env);
  const { dockerfile, baseImage, apt } = settings.options;
  const options = {
    ...open.options,
    dockerfile: open.options.dockerfile ?? dockerfile,
    baseImage: open.options.baseImage ?? baseImage,
    apt: open.options.apt ?? apt,
  };
  const name = resolveName(options.name ?? settings.options.name, cwd);
  const serviceName = toServiceName(name, options.env);
  await refuseLinks(cwd, [...USED_ENTRIES, "secrets", `secrets/${serviceName}`]);
  const log = createLogFile(cwd, now);
  const limits = createTimeLimits(open.signal);
  const emit: Emit = (event) => {
    log.write(event);
    open.emit(event);
  };
  return {
    options,
    cwd,
    name,
    serviceName,
    project: `svc-${serviceName}`,
    image: `${serviceName}:local-test`,
    url: `http://127.0.0.1:${options.port}`,
    config: settings.config,
    trusted: await readTrustedFiles(cwd, env),
    ask: open.ask,
    limits,
    redactor,
    log,
    emit,
    tools: createDeployTools({
      cwd,
      env,
      redactor,
      now,
      newId: randomUUID,
      signal: () => limits.signal,
      onReport: (message) => emit({ type: "report", message }),
      onOutput: (line) => emit({ type: "output", line }),
    }),
  };
}
