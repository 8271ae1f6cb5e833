import { DATABASE_URL } from "../../../deploy/config.ts";
import { DeployError, isDeployError } from "../../../deploy/errors.ts";
import { storeOf } from "../../../deploy/job-store.ts";
import { change, type Releasing } from "./change.ts";
import { checkInside } from "./check-inside.ts";
import { type Container, isRunning } from "./containers.ts";
import { namesOf, onServer, SERVICE, START_AND_STOP } from "./context.ts";
import { serving } from "./data.ts";
import {
  createNextDatabase,
  exchangeDatabases,
  keepFormer,
  NEXT_DATABASE,
  readFormer,
  returnFormer,
} from "./database.ts";
import { imageIn } from "./image.ts";
import type { ServerRecord } from "./record.ts";
import { FILES_SCRIPT, type FilesWork } from "./restore-files.ts";
import { SECRETS_DIR } from "./secrets.ts";

/** Where the jobs of a service are: what was there is kept until the service is healthy with the backup. */
interface Place {
  /**
   * Completes what an interrupted restore has left half done; resolves with its time where nobody has seen the service healthy
   * since, and the former jobs are beside.
   */
  resume(): Promise<string | undefined>;
  /** Brings the backup to a place beside, while the service works. */
  fill(time: string, files: AsyncIterable<Uint8Array>): Promise<unknown>;
  /** Puts it in the place of what is there, while the service is stopped. */
  exchange(time: string): Promise<unknown>;
  /** Where the former jobs are from now on, once the service is healthy. */
  keep(time: string): Promise<string>;
  /** Puts the former jobs back, while the service is stopped; resolves with where the others are. */
  giveBack(time: string): Promise<string>;
}

/**
 * Replaces the jobs and cases of the service by these files, a tar archive with their checksums in SUMS, and resolves with where
 * the former ones are: a folder of its volume, or a database. The service is stopped meanwhile. If it does not become healthy
 * with the backup, it gets the former ones back.
 */
export async function restoreData(at: Releasing, files: AsyncIterable<Uint8Array>): Promise<string> {
  const { target } = at;
  const found = await serving(at);
  const { record } = found;
  const { env, secrets, postgres } = record;
  const store = storeOf({ env, secretNames: Object.keys(secrets) });
  if (store !== "file" && postgres === undefined)
    throw new DeployError("usage", `The jobs of "${target.serviceName}" are not in its volume`, {
      outcome: "Nothing was changed",
      fix:
        store === "bucket"
          ? "They are in its bucket, which outlives the server: there is nothing to restore here"
          : "Restore into its database: svc store restore, with its URL in SERVICE_DATABASE_URL",
    });
  const time = at.tools
    .now()
    .toISOString()
    .replace(/[-:]|\..*/g, "");
  const place = postgres === undefined ? filesPlace(at, record) : databasePlace(at, record);
  await settle(at, found, place);
  return exchange(at, await serving(at), { place, time, files });
}

async function exchange(
  at: Releasing,
  found: Container,
  {
    place,
    time,
    files,
  }: { readonly place: Place; readonly time: string; readonly files: AsyncIterable<Uint8Array> },
): Promise<string> {
  // The former jobs stay in their place until the others are there.
  await change(at, "restore.fill", {}, () => place.fill(time, files));
  if (isRunning(found)) await stopForRestore(at, found);
  let failure: unknown;
  try {
    await change(at, "restore.exchange", {}, () => place.exchange(time));
  } catch (error) {
    failure = error;
  }
  // After a failure too: a store that is whole continues, one that is not refuses to start.
  await startRestored(at, found);
  if (failure !== undefined) throw failure;
  const refusal = await sickness(at, found);
  if (refusal === undefined) return change(at, "restore.keep", {}, () => place.keep(time));
  const others = await undo(at, found, { place, time });
  const isBack = (await sickness(at, found)) === undefined;
  throw new DeployError("unhealthy", "The service did not become healthy with the backup", {
    ...{ detail: refusal.detail, log: refusal.log },
    outcome: `It has its former jobs again${isBack ? ", and is healthy" : ", and is not healthy with them either"}; those of the backup are in ${others}`,
    fix: "Check that the backup is of this service and of its version: only the keys of the service that wrote it can read it",
  });
}

/** Gives the service its former jobs back; resolves with where the others are. */
async function undo(
  at: Releasing,
  found: Container,
  { place, time }: { readonly place: Place; readonly time: string },
): Promise<string> {
  await stopForRestore(at, found);
  const others = await change(at, "restore.undo", {}, () => place.giveBack(time));
  await startRestored(at, found);
  return others;
}

/** Why the service is not healthy; undefined if it is. Rejects where that is not known. */
async function sickness(at: Releasing, found: Container): Promise<DeployError | undefined> {
  try {
    await checkInside(at, found);
    return undefined;
  } catch (error) {
    if (isDeployError(error) && error.code === "unhealthy") return error;
    throw error;
  }
}

/**
 * A restore that was killed may have left jobs with which nobody has seen the service healthy in the place of the former ones: they
 * stay if the service is healthy, else the former ones are back. Both are kept.
 */
async function settle(at: Releasing, found: Container, place: Place): Promise<void> {
  const { restore } = namesOf(at.target.serviceName);
  // What it ran may still be there: it did not end with its command.
  await onServer(at, NOT_RESTORED, 'docker rm --force "$1" >/dev/null 2>&1 || :', [restore]);
  const time = await place.resume();
  if (time === undefined) return;
  if (isRunning(found) && (await sickness(at, found)) === undefined)
    await change(at, "restore.keep", {}, () => place.keep(time));
  else await undo(at, found, { place, time });
}

function stopForRestore(at: Releasing, { id, name }: Container): Promise<string> {
  return change(at, "restore.stop", { container: name }, () =>
    onServer(at, "The service was not stopped", `${START_AND_STOP}stop "$1"`, [id]),
  );
}

function startRestored(at: Releasing, { id, name }: Container): Promise<string> {
  return change(at, "restore.start", { container: name }, () =>
    onServer(at, "The service was not started", `${START_AND_STOP}start "$1"`, [id]),
  );
}

/** Databases of the server beside the service: the former one has a name of its own until the service was healthy. */
function databasePlace(at: Releasing, record: ServerRecord): Place {
  return {
    resume: () => readFormer(at),
    fill: (_, files) => fillDatabase(at, record, files),
    exchange: (time) => exchangeDatabases(at, time),
    async keep(time) {
      await keepFormer(at, time);
      return `the database replaced-${time} beside it`;
    },
    async giveBack(time) {
      await returnFormer(at, time);
      return `the database unhealthy-${time} beside it`;
    },
  };
}

/** Folders of the volume. */
function filesPlace(at: Releasing, record: ServerRecord): Place {
  const run = (work: FilesWork, time: string, input?: AsyncIterable<Uint8Array>) =>
    inVolume(at, record, { work, time, input });
  return {
    resume: () => change(at, "restore.resume", {}, async () => (await run("resume", "")) || undefined),
    fill: (time, files) => run("fill", time, files),
    exchange: (time) => run("exchange", time),
    async keep(time) {
      await run("keep", time);
      return `/data/replaced-${time} of its volume`;
    },
    async giveBack(time) {
      await run("give_back", time);
      return `/data/unhealthy-${time} of its volume`;
    },
  };
}

/**
 * Runs in a container of the service, with its database: fills another one of that server from a backup, which arrives as
 * for files. `svc` checks what it has written.
 */
const RECEIVE_INTO_DATABASE = `url=$(sed "s#/[^/?]*\\(?.*\\)*\\$#/$2\\1#" "$1") && [ -n "$url" ] || exit 1
  from=/data/.restore; rm -rf "$from" && mkdir "$from" && tar -xf - -C "$from" &&
  (cd "$from" && sha256sum --check --quiet SUMS && rm SUMS) &&
  SERVICE_DATABASE_URL=$url node_modules/.bin/svc store restore "$from"
  status=$?; rm -rf "$from"; exit $status`;

const NOT_RESTORED = "The backup was not restored";
const ONE_OFF =
  "docker run --rm --interactive --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges";

/** How a container of its own is named, of which there is one at a time. */
function namedWords(at: Releasing): string[] {
  const { serviceName } = at.target;
  return ["--name", namesOf(serviceName).restore, "--label", `${SERVICE}=${serviceName}`];
}

/** Does something in the volume, as the user of the image. */
function inVolume(
  at: Releasing,
  { image }: ServerRecord,
  {
    work,
    time,
    input,
  }: {
    readonly work: FilesWork;
    readonly time: string;
    readonly input?: AsyncIterable<Uint8Array> | undefined;
  },
): Promise<string> {
  const { data } = namesOf(at.target.serviceName);
  const words = [
    ...[...namedWords(at), "--network", "none", "--volume", `${data}:/data`, "--entrypoint", "sh"],
    ...[imageIn(at, image), "-c", FILES_SCRIPT, "svc", "/data", work, time],
  ];
  return onServer(at, NOT_RESTORED, `exec ${ONE_OFF} "$@"`, words, input && { input });
}

/** Fills a database beside that of the service. */
async function fillDatabase(
  at: Releasing,
  { image, env, secrets }: ServerRecord,
  files: AsyncIterable<Uint8Array>,
): Promise<void> {
  const { data, network } = namesOf(at.target.serviceName);
  const folders = Object.values(secrets).map((ref) => `${ref}:${SECRETS_DIR}/${ref}:ro`);
  const variables = { ...env, SERVICE_SECRETS_DIR: SECRETS_DIR };
  const words = [
    ...[...namedWords(at), "--network", network, "--volume", `${data}:/data`],
    ...folders.flatMap((volume) => ["--volume", volume]),
    ...Object.entries(variables).flatMap(([key, value]) => ["--env", `${key}=${value}`]),
    ...["--entrypoint", "sh", imageIn(at, image), "-c", RECEIVE_INTO_DATABASE, "svc"],
    ...[`${SECRETS_DIR}/${secrets[DATABASE_URL]}/${DATABASE_URL}`, NEXT_DATABASE],
  ];
  await createNextDatabase(at);
  await onServer(at, NOT_RESTORED, `exec ${ONE_OFF} "$@"`, words, { input: files });
}
