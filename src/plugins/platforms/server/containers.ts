import type { Release } from "../../../deploy/platform.ts";
import { CANDIDATE, type Context, onServer, RECORD, SERVICE, THOSE_LEFT } from "./context.ts";
import { parseRecord, revisionOf, type ServerRecord, urlOf, versionOf } from "./record.ts";

/** A container of the service: the one that serves, an earlier one that has stopped, or one that never started. */
export interface Container {
  readonly id: string;
  readonly name: string;
  /** Docker's own word: created, running, restarting, exited and so on. */
  readonly state: string;
  /** When it started last, as a date in UTC; in the year 1 if never. */
  readonly started: string;
  /** How often Docker has started it again because it had ended by itself. */
  readonly restarts: number;
  readonly text: string;
  readonly record: ServerRecord;
}

const FORMAT = `{"id":{{json .Id}},"name":{{json .Name}},"state":{{json .State.Status}},"started":{{json .State.StartedAt}},"restarts":{{json .RestartCount}},"labels":{{json .Config.Labels}}}`;
const NEVER = "0001-";

/** All containers of the service, the one that started last first. */
export async function listContainers(context: Context): Promise<Container[]> {
  const script = `${THOSE_LEFT}ids=$(docker ps --all --quiet --no-trunc --filter "label=$1" --filter "label=$2") || exit
    [ -z "$ids" ] || left docker inspect --format "$3" $ids`;
  const text = await onServer(context, "The containers of the service could not be read", script, [
    `${SERVICE}=${context.target.serviceName}`,
    RECORD,
    FORMAT,
  ]);
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => {
      const { labels, name, ...found } = JSON.parse(line) as Omit<Container, "text" | "record"> & {
        labels: Record<string, string>;
      };
      const record = labels[RECORD] ?? "";
      return { ...found, name: name.replace(/^\//, ""), text: record, record: parseRecord(record) };
    })
    .sort((a, b) => (a.started < b.started ? 1 : -1));
}

/** The environments of this base name on the server, with the last start of each one's container. */
export async function listServices({ target, ...context }: Context) {
  const script = `docker ps --all --no-trunc --filter "label=$1" --format '{{.Label "${SERVICE}"}}' | sort -u`;
  const names = (await onServer({ target, ...context }, "The services could not be listed", script, [RECORD]))
    .split("\n")
    .filter((serviceName) => serviceName.startsWith(`${target.name}-`));
  const found: { environment: string; since: string | undefined }[] = [];
  for (const serviceName of names) {
    const serving = servingOf(await listContainers({ ...context, target: { ...target, serviceName } }));
    const environment = serving?.record.env.SERVICE_ENVIRONMENT;
    // A service "a" has an environment "b-c" where a service "a-b" has "c".
    if (environment !== undefined && serviceName === `${target.name}-${environment}`)
      found.push({ environment, since: serving?.started });
  }
  return found;
}

export function isRunning({ state }: Container): boolean {
  return state === "running" || state === "restarting" || state === "paused";
}

/** Whether it has ever been healthy: only such a release is one to go back to. */
export function hasServed({ name, started }: Container): boolean {
  return !name.endsWith(CANDIDATE) && hasStarted({ started });
}

function hasStarted({ started }: Pick<Container, "started">): boolean {
  return !started.startsWith(NEVER);
}

/** The container that serves, or served last; of a service that never did, the one that was tried last. */
export function servingOf(containers: readonly Container[]): Container | undefined {
  return containers.find(isRunning) ?? containers.find(hasServed) ?? containers.find(hasStarted);
}

export function toRelease({ target }: Context, container: Container, address: string): Release {
  const { name, state, restarts, text, record } = container;
  const isUnfinished = name.endsWith(CANDIDATE);
  return {
    id: target.serviceName,
    revision: revisionOf(text),
    version: versionOf(record),
    image: record.image,
    url: urlOf(record, address),
    // Between two crashes it is "running", too.
    status: restarts === 0 ? state : `${state}, restarted ${restarts === 1 ? "once" : `${restarts} times`}`,
    env: record.env,
    secretNames: Object.keys(record.secrets),
    secrets: record.secrets,
    resources: { ...limitsText(record), instances: "1" },
    ...(isUnfinished && !isRunning(container) ? { neverServed: true } : {}),
    data: { record: text, ...(isUnfinished ? { unfinished: true } : {}) },
  };
}

const UNITS: Readonly<Record<string, string>> = { k: "KiB", m: "MiB", g: "GiB" };

function limitsText({ cpus, memory }: ServerRecord): { cpu: string; memory: string } {
  return {
    cpu: cpus === undefined ? "no limit" : `${cpus} CPU`,
    memory: memory === undefined ? "no limit" : `${memory.slice(0, -1)} ${UNITS[memory.at(-1)!]}`,
  };
}
