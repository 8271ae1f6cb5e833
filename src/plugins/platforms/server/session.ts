import { quoted } from "../../../core/base/quoted.ts";
import { DeployError } from "../../../deploy/errors.ts";
import { composeFile } from "../../../deploy/export/compose.ts";
import type { DeployTarget, PlatformSession, ReleaseSpec } from "../../../deploy/platform.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import type { ProxyOptions, Releasing } from "./change.ts";
import { HEALTH_PATH, isHealthy } from "./check-inside.ts";
import { isRunning, listContainers, listServices, servingOf, toRelease } from "./containers.ts";
import { namesOf, onServer, RECORD, SERVICE } from "./context.ts";
import { sendBackup, sendOpenJobs } from "./data.ts";
import { databaseUrl } from "./database.ts";
import { databaseStatus } from "./database-status.ts";
import type { ServerFlags } from "./flags.ts";
import { pullImage, sendImage } from "./image.ts";
import { serverLock } from "./lock.ts";
import { serverLogs } from "./logs.ts";
import { optionsOfLeft, planRelease, planVolumes } from "./plan.ts";
import { preflight } from "./preflight.ts";
import { removeService } from "./prune.ts";
import { parseRecord, type ServerRecord, urlOf, wantedRecord, wantedSettings } from "./record.ts";
import { earlierReleases, rollBackTo, runRecord, stopFailed } from "./release.ts";
import { restoreData } from "./restore.ts";
import { runInImage } from "./run-once.ts";
import { readOwnKey, SECRETS_DIR, serverSecrets } from "./secrets.ts";
import { setupServer } from "./setup.ts";
import { openSsh } from "./ssh.ts";

/** One service on one server. */
export async function openSession(
  target: DeployTarget<ServerFlags>,
  tools: DeployTools,
  proxy: ProxyOptions,
): Promise<PlatformSession> {
  const { serviceName, flags } = target;
  const ssh = openSsh(tools, flags, target.cwd);
  const context = { target, tools, ssh };
  const lock = serverLock(context);
  const at: Releasing = { ...context, lock, proxy };
  const vault = serverSecrets(context);
  const { repository } = namesOf(serviceName);
  let known: Promise<string> | undefined;
  const address = () => {
    known ??= ssh.address();
    return known;
  };
  const serving = async () => servingOf(await listContainers(context));

  /** The spec with the address that the settings lead to, where the service has no other one. */
  async function addressed(spec: ReleaseSpec, live: ServerRecord | undefined): Promise<ReleaseSpec> {
    const host = await address();
    const url = urlOf(wantedSettings(target, spec.port, live), host);
    const told = spec.env.SERVICE_PUBLIC_URL;
    const isOwn = told === undefined || told === predicted || (live && told === urlOf(live, host));
    return isOwn ? { ...spec, publicUrl: url, env: { ...spec.env, SERVICE_PUBLIC_URL: url } } : spec;
  }
  let predicted: string | undefined;

  return {
    preflight: () => preflight(context),
    setup: (consent) => setupServer(context, consent),
    async inspect() {
      const found = await serving();
      return found && toRelease(context, found, await address());
    },
    environments: () => listServices(context),
    ...vault,
    async plan(spec, live) {
      const record = live && parseRecord(String(live.data?.record));
      return planRelease(at, await addressed(spec, record), live);
    },
    async predictUrl() {
      const live = (await serving())?.record;
      predicted = urlOf(wantedSettings(target, live?.port ?? target.port, live), await address());
      return predicted;
    },
    async ownDatabase() {
      const live = (await serving())?.record;
      const { postgres } = wantedSettings(target, target.port, live);
      if (postgres === undefined) return live?.postgres === undefined ? undefined : "ends";
      return () => databaseUrl(serviceName);
    },
    databaseStatus: async () => databaseStatus(context, (await serving())?.record),
    architecture: () =>
      onServer(context, `${ssh.host} is not ready`, "docker version --format '{{.Server.Arch}}'"),
    imageRef: (tag) => `${repository}:${tag}`,
    registryLogin: async () => undefined,
    push: (ref) => {
      lock.check();
      return sendImage(context, ref);
    },
    takesImage: () => undefined,
    pull(ref) {
      lock.check();
      return pullImage(context, ref);
    },
    lock: (holder, request) => lock.take(holder, request),
    lockedBy: () => lock.holder(),
    async release(spec) {
      const live = (await serving())?.record;
      const wanted = await addressed(spec, live);
      return runRecord(at, wantedRecord(wanted, wantedSettings(target, spec.port, live)), await address());
    },
    async runOnce(spec, command, onLine) {
      const live = (await serving())?.record;
      const record = wantedRecord(await addressed(spec, live), wantedSettings(target, spec.port, live));
      return runInImage(at, record, { command, onLine });
    },
    rollback: async (to) => rollBackTo(at, to, await address()),
    history: async () => earlierReleases(context, await address()),
    stopFailed: () => stopFailed(at),
    scaleToZero: async () => undefined,
    remove: () => removeService(at, flags.removeData === true),
    keepsFiles: flags.removeData !== true,
    ownResources: async () => planVolumes(context, (await serving())?.record),
    optionsOfLeft: () => optionsOfLeft(context),
    exports: {
      async compose(spec) {
        const settings = wantedSettings(target, spec.port, (await serving())?.record);
        return composeFile(spec, settings);
      },
    },
    openJobs: () => sendOpenJobs(context),
    backup: () => sendBackup(context),
    restore: (files) => restoreData(at, files),
    async readSecret(name) {
      const found = await serving();
      const ref = found?.record.secrets[name];
      if (ref === undefined) return readOwnKey(context, name);
      if (!found || !isRunning(found)) return undefined;
      const path = `${SECRETS_DIR}/${ref}/${name}`;
      const { code, stdout } = await ssh.silent('exec docker exec "$1" cat "$2"', [found.id, path]);
      return code === 0 && stdout !== "" ? stdout : undefined;
    },
    secretCommand(name) {
      const config = flags.sshConfig === undefined ? "" : `-F ${quoted(flags.sshConfig)} `;
      return `ssh ${config}${flags.host} 'docker exec $(docker ps --quiet --filter label=${SERVICE}=${serviceName} --filter label=${RECORD}) sh -c "cat ${SECRETS_DIR}/*/${name}"'`;
    },
    async enter(command, terminal) {
      const found = await serving();
      if (found === undefined || !isRunning(found))
        throw new DeployError("not_deployed", `"${serviceName}" does not run on ${ssh.host}`, {
          fix: "svc deploy logs shows what it wrote last; svc deploy up starts it",
        });
      const script = 'flags=$1 id=$2; shift 2; exec docker exec "$flags" "$id" "$@"';
      return ssh.words(script, [terminal ? "-it" : "-i", found.id, ...command], terminal);
    },
    logs: (options) => serverLogs(context, options),
    async probeBlocked() {
      const found = await serving();
      if (found === undefined || !isRunning(found)) return undefined;
      const url = urlOf(found.record, await address());
      const reason = await unreachable(tools, url, url.startsWith("https:") ? proxy.patience : 0);
      if (reason === undefined) return undefined;
      return (await isHealthy(context, found)) ? `${url} cannot be reached from here (${reason})` : undefined;
    },
    close: () => ssh.close(),
  };
}

/**
 * Why nothing responds at an address, undefined if something does. The certificate of a new domain takes some seconds.
 */
async function unreachable(tools: DeployTools, url: string, patience: number): Promise<string | undefined> {
  const end = tools.now().getTime() + patience * 1000;
  for (;;) {
    try {
      const response = await tools.fetch(`${url}${HEALTH_PATH}`, { signal: AbortSignal.timeout(10_000) });
      await response.body?.cancel();
      return undefined;
    } catch (error) {
      if (tools.signal.aborted) throw tools.signal.reason;
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : (error as Error);
      if (tools.now().getTime() > end) return (cause as NodeJS.ErrnoException).code ?? cause.message;
    }
    await tools.sleep(3000);
  }
}
