import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { DATABASE_URL } from "../../../deploy/config.ts";
import { DeployError } from "../../../deploy/errors.ts";
import { change, type Releasing } from "./change.ts";
import { type Context, LABEL, namesOf, onServer, SERVICE } from "./context.ts";
import { lastLines } from "./logs.ts";
import type { ServerRecord, Settings } from "./record.ts";

/** Label of the database's container: the image and the secret that it was made from. */
export const DATABASE = `${LABEL}.database`;
/** Label of its volume: the image that was the first to use it. */
const FIRST_IMAGE = `${DATABASE}.image`;
/** The role, and its database. */
export const ROLE = "service";
/** Seconds in which the database must accept connections; the first start creates it. */
const PATIENCE = 120;
/** Exit codes of scripts: the files of the database are of another major version; the URL leads to another database. */
const OTHER_VERSION = 9;
const OTHER_DATABASE = 8;

/** The URL of the database beside a service, with a new password. */
export function databaseUrl(serviceName: string): string {
  const { database } = namesOf(serviceName);
  return `postgres://${ROLE}:${randomBytes(32).toString("base64url")}@${database}:5432/${ROLE}?sslmode=disable`;
}

/**
 * Runs in the image of the database, with its volume and the secret with its URL: writes the password where the database
 * reads it. Refuses files that this version of Postgres cannot open, and the URL of another database.
 */
const PREPARE = `set -e
  case $(cat /run/secret/${DATABASE_URL}) in *"@$1:5432/${ROLE}" | *"@$1:5432/${ROLE}?sslmode=disable") ;; *) exit ${OTHER_DATABASE} ;; esac
  have=$(cat /pgdata/data/PG_VERSION 2>/dev/null || true)
  is=$(postgres --version | sed 's/^[^0-9]*\\([0-9]*\\).*/\\1/')
  if [ -n "$have" ] && [ "$have" != "$is" ]; then echo "$have $is"; exit ${OTHER_VERSION}; fi
  umask 077
  sed 's#^[^:]*://[^:]*:\\([^@]*\\)@.*#\\1#' /run/secret/${DATABASE_URL} > /pgdata/password.new
  mv /pgdata/password.new /pgdata/password`;

/** Runs in the container of the database: its role gets the password of the secret, which may be newer than the files. */
const SET_PASSWORD = `{ printf "ALTER ROLE ${ROLE} PASSWORD '"; tr -d '\\n' < /pgdata/password; printf "';\\n"; } |
  psql --quiet --no-psqlrc --set ON_ERROR_STOP=1 --username=${ROLE} --dbname=${ROLE} &&
  cp /pgdata/password /pgdata/password.set`;

const ONE_OFF = [
  ...["run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp"],
  ...["--security-opt", "no-new-privileges", "--entrypoint", "sh"],
];

/**
 * Makes sure that the database of a release runs beside it, with its files in a volume of its own. A repeated call changes
 * nothing; another image takes the same files over.
 */
export async function serveDatabase(at: Releasing, record: ServerRecord): Promise<void> {
  const { postgres: image } = record;
  if (image === undefined) return;
  const ref = record.secrets[DATABASE_URL];
  if (ref === undefined)
    throw new Error(`The release has a database beside it, and no secret ${DATABASE_URL}`);
  const names = namesOf(at.target.serviceName);
  const made = `${image} ${ref}`;
  const found = await readDatabase(at);
  if (found.made !== made) {
    await change(at, "database.image", { image }, () => fetchImage(at, image));
    await change(at, "database.files", { volume: names.database }, () => prepareFiles(at, image, ref));
    await change(at, "database.create", { name: names.database, image }, async () => {
      await stopDatabase(at, found);
      await createDatabase(at, { image, made });
    });
  }
  if (found.made !== made || found.state !== "running")
    await change(at, "database.start", { name: names.database }, () =>
      onServer(at, "The database was not started", 'docker start "$1" >/dev/null', [names.database]),
    );
  await waitForDatabase(at);
  const { code } = await at.ssh.script('docker exec "$1" cmp -s /pgdata/password /pgdata/password.set', [
    names.database,
  ]);
  if (code !== 0)
    await change(at, "database.password", {}, () =>
      onServer(at, "The database did not take its password", 'docker exec "$1" sh -c "$2"', [
        names.database,
        SET_PASSWORD,
      ]),
    );
}

/** Stops and removes the container of the database; its volume stays. */
export async function leaveDatabase(at: Releasing): Promise<void> {
  const found = await readDatabase(at);
  if (found.state === "") return;
  await change(at, "database.remove", {}, () => stopDatabase(at, found));
}

/** Name of a database that is filled to take the place of the one that the service has. */
export const NEXT_DATABASE = "restored";

/** Creates it, empty. */
export async function createNextDatabase(context: Context): Promise<void> {
  await inDatabase(context, [
    `DROP DATABASE IF EXISTS ${NEXT_DATABASE}`,
    `CREATE DATABASE ${NEXT_DATABASE} OWNER ${ROLE}`,
  ]);
}

/** Beginning of the name of the database that it replaces, until the service has been healthy with it. */
const FORMER = "former-";

/** Puts it in the place of the one that the service has, which gets the name \`former-<time>\`: both, or none. */
export async function exchangeDatabases(context: Context, time: string): Promise<void> {
  await inDatabase(context, renamed([ROLE, `${FORMER}${time}`], [NEXT_DATABASE, ROLE]));
}

/** The time in the name of a database whose successor has not been seen healthy. */
export async function readFormer(context: Context): Promise<string | undefined> {
  const query = `SELECT datname FROM pg_database WHERE datname LIKE '${FORMER}%' ORDER BY 1 LIMIT 1`;
  const name = await inDatabase(context, [query]);
  return name === "" ? undefined : name.slice(FORMER.length);
}

/** Its successor stays. */
export async function keepFormer(context: Context, time: string): Promise<void> {
  await inDatabase(context, renamed([`${FORMER}${time}`, `replaced-${time}`]));
}

/** The service has it again, and its successor gets another name: both, or none. */
export async function returnFormer(context: Context, time: string): Promise<void> {
  await inDatabase(context, renamed([ROLE, `unhealthy-${time}`], [`${FORMER}${time}`, ROLE]));
}

function renamed(...names: readonly (readonly [string, string])[]): string[] {
  return ["BEGIN", ...names.map(([from, to]) => `ALTER DATABASE "${from}" RENAME TO "${to}"`), "COMMIT"];
}

function inDatabase(context: Context, statements: readonly string[]): Promise<string> {
  const { database } = namesOf(context.target.serviceName);
  const psql = `psql --quiet --no-psqlrc --no-align --tuples-only --set ON_ERROR_STOP=1 --username=${ROLE} --dbname=postgres`;
  const script = `exec docker exec --interactive "$1" ${psql}`;
  const input = statements.map((statement) => `${statement};\n`).join("");
  return onServer(context, "The databases were not exchanged", script, [database], {
    input: Readable.from([Buffer.from(input)]),
  });
}

/** Whether the database of these settings runs. */
export async function hasDatabase(context: Context, { postgres }: Settings): Promise<boolean> {
  const { made, state } = await readDatabase(context);
  return postgres !== undefined && state === "running" && made.startsWith(`${postgres} `);
}

/** The volumes of a service that are on the server: that of its files, and that of a database beside it. */
export async function readVolumes(context: Context): Promise<{
  readonly data: boolean;
  /** `image`: one that can open its files, where that is known. */
  readonly database: { readonly image: string | undefined } | undefined;
}> {
  const { data, database } = namesOf(context.target.serviceName);
  const script = `docker volume ls --format '{{.Name}} {{.Label "${FIRST_IMAGE}"}}'`;
  const text = await onServer(context, "The volumes of the server could not be read", script);
  const found = new Map(
    text.split("\n").map((line) => {
      const [name = "", image] = line.split(" ");
      return [name, image || undefined] as const;
    }),
  );
  return {
    data: found.has(data),
    database: found.has(database) ? { image: found.get(database) } : undefined,
  };
}

interface DatabaseState {
  /** What its container was made from; empty if there is none. */
  readonly made: string;
  /** Docker's word for its state; empty if there is none. */
  readonly state: string;
}

async function readDatabase(context: Context): Promise<DatabaseState> {
  const { database } = namesOf(context.target.serviceName);
  const script = `docker ps --all --filter "name=^$1\\$" --format '{{.State}} {{.Label "${DATABASE}"}}'`;
  const text = await onServer(context, "The database could not be read", script, [database]);
  const [state = "", ...made] = text.split(" ");
  return { state, made: made.join(" ") };
}

function fetchImage(at: Releasing, image: string): Promise<string> {
  const pull = 'docker image inspect "$1" >/dev/null 2>&1 || docker pull --quiet "$1" >/dev/null';
  return onServer(at, `The server did not get the image ${image}`, pull, [image]);
}

async function stopDatabase(at: Releasing, { state }: DatabaseState): Promise<void> {
  if (state === "") return;
  const { database } = namesOf(at.target.serviceName);
  const script = 'docker stop "$1" >/dev/null && docker rm --force --volumes "$1" >/dev/null';
  await onServer(at, "The database was not stopped", script, [database]);
}

async function prepareFiles(at: Releasing, image: string, ref: string): Promise<void> {
  const { serviceName } = at.target;
  const { database } = namesOf(serviceName);
  const script = `docker volume create --label "$1" --label "$2" "$3" >/dev/null || exit 1
    shift 3; exec docker "$@"`;
  const words = [
    ...[`${SERVICE}=${serviceName}`, `${FIRST_IMAGE}=${image}`, database, ...ONE_OFF],
    ...["--volume", `${database}:/pgdata`, "--volume", `${ref}:/run/secret:ro`, image],
    ...["-c", PREPARE, "svc", database],
  ];
  const { code, stdout } = await at.ssh.script(script, words);
  if (code === 0) return;
  if (code === OTHER_DATABASE)
    throw new DeployError(
      "usage",
      `${DATABASE_URL} leads to another database than the one beside the service`,
      {
        fix: `Omit --postgres; or move the jobs first (svc store move), remove the service with svc deploy down, and deploy with --postgres`,
      },
    );
  if (code !== OTHER_VERSION)
    throw new DeployError("failed", `The files of the database were not prepared with ${image}`, {
      fix: `Check on the server that the image runs: docker run --rm --entrypoint postgres ${image} --version`,
    });
  const [have = "", is = ""] = stdout.trim().split(" ");
  throw new DeployError(
    "usage",
    `The database has files of Postgres ${have}, and ${image} is Postgres ${is}`,
    {
      fix: `Deploy with an image of Postgres ${have}. To change the version: svc deploy backup, --remove-data with svc deploy down, deploy again with the same keys, svc deploy restore`,
    },
  );
}

async function createDatabase(
  at: Releasing,
  { image, made }: { readonly image: string; readonly made: string },
): Promise<void> {
  const { serviceName } = at.target;
  const { database, network } = namesOf(serviceName);
  const words = [
    ...["--name", database, "--label", `${SERVICE}=${serviceName}`, "--label", `${DATABASE}=${made}`],
    ...["--init", "--restart", "always", "--stop-timeout", "60", "--shm-size", "128m"],
    ...["--log-driver", "json-file", "--log-opt", "max-size=10m", "--log-opt", "max-file=3"],
    ...["--read-only", "--tmpfs", "/tmp", "--tmpfs", "/var/run/postgresql"],
    // Its entrypoint gives the files to its own user, and becomes that.
    ...["--cap-drop", "ALL", "--cap-add", "CHOWN", "--cap-add", "DAC_OVERRIDE", "--cap-add", "FOWNER"],
    ...["--cap-add", "SETGID", "--cap-add", "SETUID", "--security-opt", "no-new-privileges"],
    ...["--network", network, "--network-alias", database, "--volume", `${database}:/pgdata`],
    ...["--env", `POSTGRES_USER=${ROLE}`, "--env", `POSTGRES_DB=${ROLE}`, "--env", "PGDATA=/pgdata/data"],
    ...["--env", "POSTGRES_PASSWORD_FILE=/pgdata/password", image],
  ];
  await onServer(at, "The database was not created", 'exec docker create "$@" >/dev/null', words);
}

/** Waits until the database accepts connections; rejects with its last lines if it does not. */
async function waitForDatabase(context: Context): Promise<void> {
  const { database } = namesOf(context.target.serviceName);
  // Over TCP: while the files are created, a server answers on the socket only.
  const script = `for second in $(seq ${PATIENCE}); do
      docker exec "$1" pg_isready --quiet --host=127.0.0.1 --username=${ROLE} --dbname=${ROLE} && exit 0
      sleep 1
    done; exit 1`;
  const { code } = await context.ssh.script(script, [database]);
  if (code === 0) return;
  throw new DeployError("unhealthy", "The database beside the service does not accept connections", {
    log: await lastLines(context, database),
    fix: `Check it on the server: docker logs ${database}`,
  });
}
