import { DeployError } from "../../../deploy/errors.ts";
import { storeOf } from "../../../deploy/job-store.ts";
import { change, type Releasing } from "./change.ts";
import { checkInside } from "./check-inside.ts";
import { type Container, isRunning, listContainers, servingOf } from "./containers.ts";
import { type Context, namesOf, onServer, START_AND_STOP } from "./context.ts";
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
 * Replaces the jobs and cases of the service by these files, a tar archive with their checksums in SUMS, and resolves with the
 * folder of its volume that has the former ones. The service is stopped meanwhile.
 */
export async function restoreData(at: Releasing, files: AsyncIterable<Uint8Array>): Promise<string> {
  const { target, tools } = at;
  const found = await serving(at);
  const { env, secrets, image } = found.record;
  const store = storeOf({ env, secretNames: Object.keys(secrets) });
  if (store !== "file")
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
  if (isRunning(found))
    await change(at, "restore.stop", { container: found.name }, () =>
      onServer(at, "The service was not stopped", `${START_AND_STOP}stop "$1"`, [found.id]),
    );
  const script = `exec docker run --rm --interactive --network none --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --volume "$1:/data" --entrypoint sh "$2" -c "$3" svc "$4"`;
  const words = [namesOf(target.serviceName).data, image.replace(/^.*@/, ""), RECEIVE, former];
  let failure: unknown;
  try {
    await change(at, "restore.fill", { former }, () =>
      onServer(at, "The backup was not restored", script, words, { input: files }),
    );
  } catch (error) {
    failure = error;
  }
  // After a failure too: a store that is whole continues, one that is not refuses to start.
  await change(at, "restore.start", { container: found.name }, () =>
    onServer(at, "The service was not started", `${START_AND_STOP}start "$1"`, [found.id]),
  );
  if (failure !== undefined) throw failure;
  await checkInside(at, found);
  return `/data/${former}`;
}

async function serving(context: Context): Promise<Container> {
  const found = servingOf(await listContainers(context));
  if (found !== undefined) return found;
  throw new DeployError("not_deployed", `"${context.target.serviceName}" is not deployed`, {
    fix: "Deploy it first with svc deploy up; it finds the volume of a service that was removed",
  });
}
