import { change, type Releasing } from "./change.ts";
import { confinedWords } from "./confined-words.ts";
import { LABEL, namesOf, SERVICE } from "./context.ts";
import { serveDatabase } from "./database.ts";
import { dockerError } from "./docker-error.ts";
import { imageIn } from "./image.ts";
import { beats } from "./lock.ts";
import { ensureNetwork } from "./proxy.ts";
import { isInNetwork, type ServerRecord } from "./record.ts";

/** The service reads its secrets from files; a command finds them in variables. */
const WITH_SECRETS = `for file in "$SERVICE_SECRETS_DIR"/*/*; do
    [ ! -f "$file" ] || export "\${file##*/}=$(cat "$file")"
  done
  exec /bin/sh -c "$1"`;

/** What \`docker run\` ends with where it has not started the command. */
const NOT_STARTED = 125;
/** Label of the container, with what tells this run from others. */
const RUN = `${LABEL}.run`;

/**
 * The container ends with this run, however that ends: when its input does, or has been silent for a minute. It is found by its
 * label, as its name may be that of a later run by then. The line with the exit code is the last one.
 */
const SCRIPT = `name=$1; label=$2; ended=$3; shift 3
  docker rm --force "$name" >/dev/null 2>&1
  exec 3<&0
  docker run "$@" </dev/null & run=$!
  {
    while [ -n "$(timeout 60 head -c 1)" ]; do :; done
    for try in 1 2 3 4 5; do
      kill -0 $run || break
      docker rm --force $(docker ps --all --quiet --filter "label=$label")
      sleep 1
    done
  } <&3 >/dev/null 2>&1 & watch=$!
  wait $run; echo "$ended $?"
  wait $watch`;

/**
 * Runs a command in the image of a release, confined as the service is, without its files. One that an earlier run has left
 * is ended first: a command never runs twice at the same time.
 */
export async function runInImage(
  at: Releasing,
  record: ServerRecord,
  { command, onLine }: { readonly command: string; readonly onLine: (line: string) => void },
): Promise<number> {
  const { serviceName } = at.target;
  const { command: name, network } = namesOf(serviceName);
  if (isInNetwork(record)) await ensureNetwork(at);
  await serveDatabase(at, record);
  const [label, ended] = [`${RUN}=${at.tools.newId()}`, `[${at.tools.newId()}] exit code`];
  const words = [
    ...["--rm", "--name", name, "--label", `${SERVICE}=${serviceName}`, "--label", label],
    ...["--tmpfs", "/data", ...(isInNetwork(record) ? ["--network", network] : [])],
    ...["--env", "HOME=/tmp", ...confinedWords(record), "--entrypoint", "/bin/sh"],
    ...[imageIn(at, record.image), "-c", WITH_SECRETS, "sh", command],
  ];
  let code: number | undefined;
  let end = () => {};
  const over = new Promise<void>((resolve) => {
    end = resolve;
  });
  const result = await change(at, "command.run", { name }, () =>
    at.ssh
      .script(SCRIPT, [name, label, ended, ...words], {
        input: beats(over),
        onLine(line) {
          if (!line.startsWith(ended)) return onLine(line);
          code = Number(line.slice(ended.length));
          end();
        },
      })
      .finally(end),
  );
  if (code === undefined || code === NOT_STARTED)
    throw dockerError("The release command was not started", result);
  return code;
}
