import { DeployError } from "../../../deploy/errors.ts";
import { type Container, isRunning, listContainers, servingOf } from "./containers.ts";
import type { Context } from "./context.ts";
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
    throw new DeployError(
      "not_deployed",
      `"${context.target.serviceName}" does not run on ${context.ssh.host}`,
      {
        fix: "Start it with svc deploy up, and repeat the backup",
      },
    );
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

/** The container that serves, or served last; rejects without one. */
export async function serving(context: Context): Promise<Container> {
  const found = servingOf(await listContainers(context));
  if (found !== undefined) return found;
  throw new DeployError("not_deployed", `"${context.target.serviceName}" is not deployed`, {
    fix: "Deploy it first with svc deploy up; it finds the volume of a service that was removed",
  });
}
