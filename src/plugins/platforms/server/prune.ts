import { change, type Releasing } from "./change.ts";
import { type Container, hasServed, isRunning, listContainers } from "./containers.ts";
import { type Context, namesOf, onServer, SERVICE } from "./context.ts";
import { DATABASE, leaveDatabase } from "./database.ts";
import { isSent } from "./image.ts";
import { leaveProxy } from "./proxy.ts";
import { listSecretVolumes } from "./secrets.ts";

/** Earlier releases that stay on the server, with their images, for a rollback. */
const KEPT = 3;

/** Removes what no rollback can need any longer: the oldest containers, and images and secrets that only they used. */
export async function dropOld(
  at: Releasing,
  all: readonly Container[],
  gone: readonly Container[] = [],
): Promise<void> {
  const earlier = all.filter((one) => !isRunning(one) && hasServed(one));
  const kept = [...all.filter(isRunning), ...earlier.slice(0, KEPT)];
  const old = all.filter((one) => !kept.includes(one));
  const containers = old.map(({ id }) => id);
  const pulled = [...old, ...gone].map(({ record }) => record.image).filter((image) => !isSent(at, image));
  const inUse = kept.map(({ record }) => record.image);
  const images = [
    ...(await unusedImages(at, kept)),
    ...new Set(pulled.filter((image) => !inUse.includes(image))),
  ];
  const secrets = await unusedSecrets(at, kept);
  if (containers.length + images.length + secrets.length === 0) return;
  const script = `while [ $# -gt 0 ]; do
      case $1 in
        container) docker rm --force "$2" >/dev/null ;;
        image) docker image rm "$2" >/dev/null 2>&1 ;;
        volume) docker volume rm --force "$2" >/dev/null ;;
      esac; shift 2
    done; true`;
  const words = [
    ...containers.flatMap((id) => ["container", id]),
    ...images.flatMap((ref) => ["image", ref]),
    ...secrets.flatMap((ref) => ["volume", ref]),
  ];
  await change(at, "old.remove", { containers, images, secrets }, () =>
    onServer(at, "What earlier releases left was not removed", script, words),
  );
}

/** Images of the service that none of these containers was made from. */
async function unusedImages(context: Context, kept: readonly Container[]): Promise<string[]> {
  const { repository } = namesOf(context.target.serviceName);
  const script = `docker image ls --no-trunc --format '{{.Repository}}:{{.Tag}} {{.ID}}' "$1"`;
  const text = await onServer(context, "The images of the service could not be read", script, [repository]);
  const used = kept.map(({ record }) => record.image.replace(/^.*@/, ""));
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => line.split(" "))
    .filter(([, id = ""]) => !used.includes(id))
    .map(([ref = "", id = ""]) => (ref.endsWith(":<none>") ? id : ref));
}

/** Values of secrets that none of these containers has, and that are not the newest of their variable. */
async function unusedSecrets(context: Context, kept: readonly Container[]): Promise<string[]> {
  const used = new Set(kept.flatMap(({ record }) => Object.values(record.secrets)));
  const newest = new Map<string, { ref: string; version: number }>();
  const all = await listSecretVolumes(context);
  for (const ref of all) {
    const [, name = "", version] = ref.split(".");
    const number = Number(version);
    if (number >= (newest.get(name)?.version ?? 0)) newest.set(name, { ref, version: number });
  }
  for (const { ref } of newest.values()) used.add(ref);
  return all.filter((ref) => !used.has(ref));
}

/** Stops and removes all containers of the service; its volumes only where that is asked for. */
export async function removeService(at: Releasing, removeData: boolean): Promise<void> {
  const { serviceName } = at.target;
  const label = `${SERVICE}=${serviceName}`;
  const { data, database } = namesOf(serviceName);
  const before = removeData ? await listContainers(at) : [];
  // The database ends after those that use it.
  const find = `docker ps --all --no-trunc --filter "label=$1" --format '{{.ID}} {{.Label "${DATABASE}"}}'`;
  const ids = (await onServer(at, "The containers of the service could not be read", find, [label]))
    .split("\n")
    .map((line) => line.split(" "))
    .flatMap(([id = "", made]) => (id === "" || made ? [] : [id]));
  if (ids.length > 0) {
    const script = 'docker stop "$@" >/dev/null && docker rm --force "$@" >/dev/null';
    await change(at, "service.remove", { ids }, () =>
      onServer(at, "The service was not removed", script, ids),
    );
  }
  await leaveDatabase(at);
  await leaveProxy(at);
  if (!removeData) return;
  const found = await onServer(at, "The volumes could not be read", "docker volume ls --quiet");
  const volumes = found.split("\n").filter((name) => name === data || name === database);
  if (volumes.length > 0)
    await change(at, "data.remove", { volumes }, () =>
      onServer(at, "The volume was not removed", 'docker volume rm --force "$@" >/dev/null', volumes),
    );
  await dropOld(at, [], before);
}
