import { DATABASE_URL } from "../../../deploy/config.ts";
import { DeployError } from "../../../deploy/errors.ts";
import { storeOf } from "../../../deploy/job-store.ts";
import { change, type Releasing } from "./change.ts";
import { checkInside } from "./check-inside.ts";
import { type Container, isRunning, listContainers, servingOf } from "./containers.ts";
import { type Context, namesOf, onServer, START_AND_STOP } from "./context.ts";
import { createNextDatabase, exchangeDatabases, NEXT_DATABASE } from "./database.ts";
import { imageIn } from "./image.ts";
import type { ServerRecord } from "./record.ts";
import { SECRETS_DIR } from "./secrets.ts";

/** Runs in the container, which has the key and Node: writes what the service sends to its output. */
const SEND = `(async () => {
  const { readFileSync } = require("node:fs");
  const [, port, secret, path] = process.argv;
  const { SERVICE_API_KEY, SERVICE_API_PREFIX = "", SERVICE_DATA_DIR = "/data" } = process.env;
  const read = (file) => { try { return readFileSync(file, "utf8").trim(); } catch {} };
  const key = SERVICE_API_KEY || read(secret) || read(SERVICE_DATA_DIR + "/api-key") || "";
  const url = "http://127.0.0.1:" + port + SERVICE_API_PREFIX + path;
  const response = await fetch(url, { headers: { "x-api-key": key } });
  if (!response.ok) throw new Error("the service answered " + response.status + " " + (await response.text()).slice(0, 300));
  const { Readable } = require("node:stream");
  await require("node:stream/promises").pipeline(Readable.fromWeb(response.body), process.stdout, { end: false });
})().catch((error) => {
  console.error(error.cause?.message ?? error.message);
  process.exitCode = 4;
})`;

/** What the running service sends as its backup: a consistent state, while it continues to work. */
export async function* sendBackup(context: Context): AsyncGenerator<Uint8Array> {
  const found = await serving(context);
  if (!isRunning(found))
    throw new DeployError("not_deployed", `"${context.target.serviceName}" is not running`, {
      fix: "Start it with svc deploy up, and repeat the backup",
    });
  yield* send(context, found, "/utils/backup", "The backup was not made");
}

/** What the running service sends as its open jobs. */
export async function* sendOpenJobs(context: Context): AsyncGenerator<Uint8Array> {
  const found = await serving(context);
  if (!isRunning(found)) throw new DeployError("not_deployed", "it is not running");
  yield* send(context, found, "/utils/open-jobs", "Its open jobs could not be read");
}

/** What a service sends at a path, asked for from inside its container. */
function send(context: Context, found: Container, path: string, problem: string): AsyncIterable<Uint8Array> {
  const key = found.record.secrets.SERVICE_API_KEY;
  const file = key === undefined ? "" : `${SECRETS_DIR}/${key}/SERVICE_API_KEY`;
  return context.ssh.stream(problem, 'exec docker exec "$1" node -e "$2" "$3" "$4" "$5"', [
    found.id,
    SEND,
    String(found.record.port),
    file,
    path,
  ]);
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

/**
 * Replaces the jobs and cases of the service by these files, a tar archive with their checksums in SUMS, and resolves with where
 * the former ones are: a folder of its volume, or a database. The service is stopped meanwhile.
 */
export async function restoreData(at: Releasing, files: AsyncIterable<Uint8Array>): Promise<string> {
  const { target, tools } = at;
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
  const former = `replaced-${tools
    .now()
    .toISOString()
    .replace(/[-:]|\..*/g, "")}`;
  // The former jobs stay in their place until the others are there.
  if (postgres !== undefined)
    await change(at, "restore.fill", {}, () => fillDatabase(at, found.record, files));
  if (isRunning(found))
    await change(at, "restore.stop", { container: found.name }, () =>
      onServer(at, "The service was not stopped", `${START_AND_STOP}stop "$1"`, [found.id]),
    );
  let failure: unknown;
  try {
    if (postgres === undefined)
      await change(at, "restore.fill", { former }, () => fillVolume(at, found.record, { files, former }));
    else await change(at, "restore.exchange", { former }, () => exchangeDatabases(at, former));
  } catch (error) {
    failure = error;
  }
  // After a failure too: a store that is whole continues, one that is not refuses to start.
  await change(at, "restore.start", { container: found.name }, () =>
    onServer(at, "The service was not started", `${START_AND_STOP}start "$1"`, [found.id]),
  );
  if (failure !== undefined) throw failure;
  await checkInside(at, found);
  return postgres === undefined ? `/data/${former} of its volume` : `the database ${former} beside it`;
}

const NOT_RESTORED = "The backup was not restored";
const ONE_OFF =
  "docker run --rm --interactive --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges";

function fillVolume(
  at: Releasing,
  { image }: ServerRecord,
  { files, former }: { readonly files: AsyncIterable<Uint8Array>; readonly former: string },
): Promise<string> {
  const script = `exec ${ONE_OFF} --network none --volume "$1:/data" --entrypoint sh "$2" -c "$3" svc "$4"`;
  const words = [namesOf(at.target.serviceName).data, imageIn(at, image), RECEIVE, former];
  return onServer(at, NOT_RESTORED, script, words, { input: files });
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

async function serving(context: Context): Promise<Container> {
  const found = servingOf(await listContainers(context));
  if (found !== undefined) return found;
  throw new DeployError("not_deployed", `"${context.target.serviceName}" is not deployed`, {
    fix: "Deploy it first with svc deploy up; it finds the volume of a service that was removed",
  });
}
