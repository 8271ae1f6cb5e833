import { storeOf, usesFolder } from "../../../deploy/job-store.ts";
import type { Release } from "../../../deploy/platform.ts";
import { change, type Releasing } from "./change.ts";
import { checkInside, isHealthy } from "./check-inside.ts";
import { confinedWords } from "./confined-words.ts";
import { type Container, hasServed, isRunning, listContainers, servingOf, toRelease } from "./containers.ts";
import { type Context, namesOf, onServer, RECORD, SERVICE, START_AND_STOP } from "./context.ts";
import { leaveDatabase, serveDatabase } from "./database.ts";
import { imageIn } from "./image.ts";
import { ensureNetwork, serveDomain } from "./proxy.ts";
import { dropOld } from "./prune.ts";
import { isInNetwork, parseRecord, recordText, revisionOf, type ServerRecord } from "./record.ts";

/**
 * Runs a container made from this record instead of the serving one, which stops but stays: it serves again after a
 * rollback. A container is found by its record, so a repeated call continues where an earlier one was cut short, and changes
 * nothing once all is done.
 */
export async function runRecord(at: Releasing, record: ServerRecord, address: string): Promise<Release> {
  const text = recordText(record);
  const names = namesOf(at.target.serviceName);
  const revision = revisionOf(text);
  const name = names.candidate(revision);
  let all = await listContainers(at);
  const proxied = [record, ...all.map((one) => one.record)].some(({ domain }) => domain !== undefined);
  if (isInNetwork(record)) await ensureNetwork(at);
  await serveDatabase(at, record);
  if (!all.some((one) => one.text === text)) {
    await change(at, "container.create", { name }, () => createContainer(at, name, text));
    all = await listContainers(at);
  }
  const mine = all.find((one) => one.text === text);
  if (mine === undefined) throw new Error(`Container ${name} does not exist after it was created`);
  const others = all.filter((one) => one !== mine && isRunning(one));
  const isNew = mine.name === name;
  if (!isRunning(mine) || others.length > 0 || isNew) await replace(at, mine, others);
  if (isNew)
    await change(at, "container.keep", { name }, () =>
      onServer(at, "The container was not renamed", 'docker rename "$1" "$2"', [
        mine.id,
        names.container(revision),
      ]),
    );
  if (proxied) await serveDomain(at, record);
  if (record.postgres === undefined) await leaveDatabase(at);
  await dropOld(at, await listContainers(at));
  const serving = servingOf(await listContainers(at));
  if (serving === undefined) throw new Error(`Container ${name} was removed while it was being released`);
  return toRelease(at, serving, address);
}

/** The release that a rollback went back to runs again, from its own record. */
export function rollBackTo(at: Releasing, to: Release, address: string): Promise<Release> {
  return runRecord(at, parseRecord(String(to.data?.record)), address);
}

/** Stops what runs and is not healthy: the engine would restart it after each crash, and with the server. */
export async function stopFailed(at: Releasing): Promise<boolean> {
  const [failed] = (await listContainers(at)).filter(isRunning);
  if (failed === undefined || (await isHealthy(at, failed))) return false;
  await change(at, "container.stop", { names: [failed.name] }, () =>
    onServer(at, "The container was not stopped", `${START_AND_STOP}stop "$1"`, [failed.id]),
  );
  return true;
}

/** Earlier releases whose containers, and so their images, are still on the server; the newest first. */
export async function earlierReleases(context: Context, address: string): Promise<Release[]> {
  const all = await listContainers(context);
  const serving = servingOf(all);
  return all
    .filter((one) => one !== serving && hasServed(one))
    .map((one) => toRelease(context, one, address));
}

async function createContainer(at: Releasing, name: string, text: string): Promise<void> {
  const { serviceName } = at.target;
  const record = parseRecord(text);
  const { port, bind, domain, image, labels = {} } = record;
  const { data, network } = namesOf(serviceName);
  const address = bind === undefined ? "" : `${bind.includes(":") ? `[${bind}]` : bind}:`;
  const words = [
    ...["--name", name, "--label", `${SERVICE}=${serviceName}`, "--label", `${RECORD}=${text}`],
    ...Object.entries(labels).flatMap(([key, value]) => ["--label", `${key}=${value}`]),
    ...["--restart", "unless-stopped", "--stop-timeout", "30"],
    ...["--log-driver", "json-file", "--log-opt", "max-size=10m", "--log-opt", "max-file=3"],
    ...confinedWords(record),
    ...["--volume", `${data}:/data`],
    ...(domain === undefined ? ["--publish", `${address}${port}:${port}`] : []),
    ...(isInNetwork(record) ? ["--network", network] : []),
    ...(domain === undefined ? [] : ["--network-alias", serviceName]),
    imageIn(at, image),
  ];
  const script = `docker volume create --label "$1" "$2" >/dev/null || exit 1
    shift 2; exec docker create "$@" >/dev/null`;
  await onServer(at, "The container was not created", script, [`${SERVICE}=${serviceName}`, data, ...words]);
}

/**
 * Starts the new container and stops the others: one after the other where their files can have one owner only, else the
 * new one first. If it does not start, the others are started again.
 */
async function replace(at: Releasing, mine: Container, others: readonly Container[]): Promise<void> {
  const beside = others.length > 0 && [mine, ...others].every(canRunBeside);
  const ids = others.map(({ id }) => id);
  const start = `${START_AND_STOP}beside=$1; new=$2; shift 2
    if [ "$beside" = no ] && [ $# -gt 0 ]; then stop "$@" || exit 1; fi
    start "$new" && exit 0
    for old in "$@"; do start "$old"; done
    exit 1`;
  if (!isRunning(mine) || others.length > 0)
    await change(at, "container.switch", { to: mine.name, from: others.map(({ name }) => name) }, () =>
      onServer(at, "The container was not started", start, [beside ? "yes" : "no", mine.id, ...ids]),
    );
  await checkInside(at, mine);
  if (beside)
    await change(at, "container.stop", { names: others.map(({ name }) => name) }, () =>
      onServer(at, "The previous container was not stopped", `${START_AND_STOP}stop "$@"`, ids),
    );
}

/** Whether two containers may run at the same time: they share no port, and do not use the files of their volume. */
function canRunBeside({ record: { domain, env, secrets } }: Container): boolean {
  return domain !== undefined && !usesFolder(storeOf({ env, secretNames: Object.keys(secrets) }));
}
