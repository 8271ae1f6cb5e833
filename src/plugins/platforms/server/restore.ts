import { DATABASE_URL } from "../../../deploy/config.ts";
import { DeployError, isDeployError } from "../../../deploy/errors.ts";
import { storeOf } from "../../../deploy/job-store.ts";
import { change, type Releasing } from "./change.ts";
import { checkInside } from "./check-inside.ts";
import { type Container, isRunning } from "./containers.ts";
import { namesOf, onServer, START_AND_STOP } from "./context.ts";
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
import { SECRETS_DIR } from "./secrets.ts";

/** Where the jobs of a service are: what was there is kept until the service is healthy with the backup. */
interface Place {
  /** Brings the backup to a place beside, while the service works. */
  fill?(): Promise<unknown>;
  /** Puts it in the place of what is there, while the service is stopped. */
  exchange(): Promise<unknown>;
  /** Where the former jobs are from now on, once the service is healthy. */
  keep(): Promise<string>;
  /** Puts the former jobs back, while the service is stopped; resolves with where the others are. */
  giveBack(): Promise<string>;
}

/**
 * Replaces the jobs and cases of the service by these files, a tar archive with their checksums in SUMS, and resolves with where
 * the former ones are: a folder of its volume, or a database. The service is stopped meanwhile. If it does not become healthy
 * with the backup, it gets the former ones back.
 */
export async function restoreData(at: Releasing, files: AsyncIterable<Uint8Array>): Promise<string> {
  const { target } = at;
  const found = await serving(at);
  const { env, secrets, postgres } = found.record;
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
  const { record } = found;
  if (postgres === undefined) return exchange(at, found, filesPlace(at, record, { files, time }));
  await settle(at, found);
  const latest = await serving(at);
  return exchange(
    at,
    latest,
    databasePlace(at, time, () => fillDatabase(at, record, files)),
  );
}

async function exchange(at: Releasing, found: Container, place: Place): Promise<string> {
  const { fill } = place;
  // The former jobs stay in their place until the others are there.
  if (fill) await change(at, "restore.fill", {}, () => fill());
  if (isRunning(found)) await stopForRestore(at, found);
  let failure: unknown;
  try {
    await change(at, "restore.exchange", {}, () => place.exchange());
  } catch (error) {
    failure = error;
  }
  // After a failure too: a store that is whole continues, one that is not refuses to start.
  await startRestored(at, found);
  if (failure !== undefined) throw failure;
  const refusal = await sickness(at, found);
  if (refusal === undefined) return change(at, "restore.keep", {}, () => place.keep());
  const others = await undo(at, found, place);
  const isBack = (await sickness(at, found)) === undefined;
  throw new DeployError("unhealthy", "The service did not become healthy with the backup", {
    ...{ detail: refusal.detail, log: refusal.log },
    outcome: `It has its former jobs again${isBack ? ", and is healthy" : ", and is not healthy with them either"}; those of the backup are in ${others}`,
    fix: "Check that the backup is of this service and of its version: only the keys of the service that wrote it can read it",
  });
}

/** Gives the service its former jobs back; resolves with where the others are. */
async function undo(at: Releasing, found: Container, place: Place): Promise<string> {
  await stopForRestore(at, found);
  const others = await change(at, "restore.undo", {}, () => place.giveBack());
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
 * A restore that was killed has left a database whose service nobody has seen healthy in the place of the former one: it stays if
 * the service is healthy, else the former one is back. Both are kept.
 */
async function settle(at: Releasing, found: Container): Promise<void> {
  const former = await readFormer(at);
  if (former === undefined) return;
  const place = databasePlace(at, former);
  if (isRunning(found) && (await sickness(at, found)) === undefined)
    await change(at, "restore.keep", {}, () => place.keep());
  else await undo(at, found, place);
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
function databasePlace(at: Releasing, former: string, fill?: () => Promise<unknown>): Place {
  return {
    ...(fill && { fill }),
    exchange: () => exchangeDatabases(at, former),
    async keep() {
      await keepFormer(at, former);
      return `the database replaced-${former} beside it`;
    },
    async giveBack() {
      await returnFormer(at, former);
      return `the database unhealthy-${former} beside it`;
    },
  };
}

/** Folders of the volume. */
function filesPlace(
  at: Releasing,
  record: ServerRecord,
  { files, time }: { readonly files: AsyncIterable<Uint8Array>; readonly time: string },
): Place {
  return {
    exchange: () => inVolume(at, record, { script: RECEIVE, words: [`replaced-${time}`], input: files }),
    keep: async () => `/data/replaced-${time} of its volume`,
    async giveBack() {
      await inVolume(at, record, { script: GIVE_BACK, words: [`replaced-${time}`, `unhealthy-${time}`] });
      return `/data/unhealthy-${time} of its volume`;
    },
  };
}

/**
 * Runs in a container of its own, as the user of the image. The store cannot be opened while it has the file INCOMPLETE, so
 * that no service starts with half of the files; a repeated call continues from any line.
 */
const RECEIVE = `cd /data && rm -rf .restore && mkdir .restore && tar -xf - -C .restore || { rm -rf .restore; exit 1; }
  (cd .restore && sha256sum --check --quiet SUMS && rm SUMS) || { rm -rf .restore; exit 1; }
  : > INCOMPLETE && sync && mkdir -p "$1" || exit 1
  for file in *.jsonl MANIFEST.* damaged; do [ ! -e "$file" ] || mv "$file" "$1/" || exit 1; done
  mv .restore/* . && rmdir .restore && sync && rm INCOMPLETE && sync`;

/**
 * Runs in a container of the service, with its database: fills another one of that server from a backup, which arrives as
 * for files. `svc` checks what it has written.
 */
const RECEIVE_INTO_DATABASE = `url=$(sed "s#/[^/?]*\\(?.*\\)*\\$#/$2\\1#" "$1") && [ -n "$url" ] || exit 1
  from=/data/.restore; rm -rf "$from" && mkdir "$from" && tar -xf - -C "$from" &&
  (cd "$from" && sha256sum --check --quiet SUMS && rm SUMS) &&
  SERVICE_DATABASE_URL=$url node_modules/.bin/svc store restore "$from"
  status=$?; rm -rf "$from"; exit $status`;

/** Runs in such a container: puts the former files back, and those of the backup aside. */
const GIVE_BACK = `cd /data && : > INCOMPLETE && sync && mkdir -p "$2" || exit 1
  for file in *.jsonl MANIFEST.* damaged; do [ ! -e "$file" ] || mv "$file" "$2/" || exit 1; done
  mv "$1"/* . && rmdir "$1" && sync && rm INCOMPLETE && sync`;

const NOT_RESTORED = "The backup was not restored";
const ONE_OFF =
  "docker run --rm --interactive --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges";

function inVolume(
  at: Releasing,
  { image }: ServerRecord,
  work: {
    readonly script: string;
    readonly words: readonly string[];
    readonly input?: AsyncIterable<Uint8Array>;
  },
): Promise<string> {
  const { script, words, input } = work;
  const run = `data=$1; shift; exec ${ONE_OFF} --network none --volume "$data:/data" --entrypoint sh "$@"`;
  const values = [namesOf(at.target.serviceName).data, imageIn(at, image), "-c", script, "svc", ...words];
  return onServer(at, NOT_RESTORED, run, values, input && { input });
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
    ...["--network", network, "--volume", `${data}:/data`],
    ...folders.flatMap((volume) => ["--volume", volume]),
    ...Object.entries(variables).flatMap(([key, value]) => ["--env", `${key}=${value}`]),
    ...["--entrypoint", "sh", imageIn(at, image), "-c", RECEIVE_INTO_DATABASE, "svc"],
    ...[`${SECRETS_DIR}/${secrets[DATABASE_URL]}/${DATABASE_URL}`, NEXT_DATABASE],
  ];
  await createNextDatabase(at);
  await onServer(at, NOT_RESTORED, `exec ${ONE_OFF} "$@"`, words, { input: files });
}
